-- Returns {'hold', number} or {'lost'} or {'exhausted'}; KEYS: lock, counter, queue, waiters; ARGV: number and grant of the hold that ends, grant, label, ttl ms, floor.
-- It does without hold.lua and line.lua: every function costs time, even one that is not called.
-- The counter is written before the lock, as everywhere.

local value = redis.call('GET', KEYS[1])
local begin = ARGV[1] .. ' ' .. ARGV[2] .. ' '
if not value or string.sub(value, 1, #begin) ~= begin then return {'lost'} end
local grant, label, ttl = ARGV[3], ARGV[4], ARGV[5]
local counter = redis.call('HMGET', KEYS[2], 'number', 'line')
local number = math.max(tonumber(counter[1] or '0'), tonumber(ARGV[1]), tonumber(ARGV[6])) + 1
if number > 9007199254740991 then return {'exhausted'} end
local n = string.format('%.0f', number)

if counter[2] then
  redis.call('HSET', KEYS[2], 'number', n, 'grant', grant, 'line', 'waiting')
else
  redis.call('HSET', KEYS[2], 'number', n, 'grant', grant)
end
redis.call('SET', KEYS[1], n .. ' ' .. grant .. ' ' .. ttl .. ' ' .. label, 'PX', ttl)
if counter[2] then
  redis.call('LREM', KEYS[3], 0, grant)
  redis.call('HDEL', KEYS[4], grant)
end
return {'hold', n}
