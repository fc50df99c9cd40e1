-- Returns {'confirmed'} or {'gone'} or {'quarantine'}; KEYS: marker, lock, counter; ARGV: longest ttl ms, attempt, ctr, number.
-- It is the second phase, and only for the very granting that the number was made from.

if not fit() then return {'quarantine'} end
local h = lock()
if not h or h.attempt ~= ARGV[2] or h.ctr ~= ARGV[3] then return {'gone'} end
local number = tonumber(ARGV[4])
if h.number == number then return {'confirmed'} end
local counter = redis.call('HMGET', KEYS[3], 'ctr', 'grant', 'number')
local ctr = math.max(tonumber(counter[1] or '0'), number)
redis.call('HSET', KEYS[3], 'ctr', text(ctr), 'grant', h.grant, 'number', ARGV[4])
redis.call('HSET', KEYS[2], 'number', ARGV[4], 'pgrant', counter[2] or '', 'pnumber', counter[3] or '0')
return {'confirmed'}
