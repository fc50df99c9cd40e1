-- Returns {'hold', number} or {'lost'} or {'exhausted'}; KEYS: lock, counter, queue, waiters; ARGV: number and grant of the hold that ends, grant, label, ttl ms, floor.

local h = hold(KEYS[1])
if not h or h.number ~= tonumber(ARGV[1]) or h.grant ~= ARGV[2] then return {'lost'} end
local grant = ARGV[3]
local counter = redis.call('HMGET', KEYS[2], 'number', 'line')
local number = math.max(tonumber(counter[1] or '0'), h.number, tonumber(ARGV[6])) + 1
if number > MAX then return {'exhausted'} end
take(number, grant, ARGV[5], ARGV[4], counter[2] and 'waiting')
if counter[2] then
  redis.call('LREM', KEYS[3], 0, grant)
  redis.call('HDEL', KEYS[4], grant)
end
return {'hold', text(number)}
