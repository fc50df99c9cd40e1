-- Returns {'confirmed', left ms} or {'gone'} or {'quarantine', run id, marker}; KEYS: marker, lock, counter; ARGV: terms, attempt, ctr, number, ttl ms.
-- It is the second phase, and only for the very granting that the number was made from. A new hold lasts for the TTL
-- from here, a hold that is numbered anew keeps its expiry.

local out = unfit()
if out then return out end
local h = lock()
if not h or h.attempt ~= ARGV[2] or h.ctr ~= ARGV[3] then return {'gone'} end
local number = tonumber(ARGV[4])
if h.number == number then return {'confirmed', text(h.left)} end
local counter = redis.call('HMGET', KEYS[3], 'ctr', 'grant', 'number')
local ctr = math.max(tonumber(counter[1] or '0'), number)
redis.call('HSET', KEYS[3], 'ctr', text(ctr), 'grant', h.grant, 'number', ARGV[4])
redis.call('HSET', KEYS[2], 'number', ARGV[4], 'pgrant', counter[2] or '', 'pnumber', counter[3] or '0')
if h.number > 0 then return {'confirmed', text(h.left)} end
redis.call('HSET', KEYS[2], 'ttl', ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return {'confirmed', ARGV[5]}
