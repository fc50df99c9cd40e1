-- Returns {'freed'} if it ended this hold, {'none'} if there was none; KEYS: lock, counter, queue, waiters; ARGV: number, grant.
-- It stands before hold.lua and goes on in next.lua where somebody waits: functions cost time.

local value = redis.call('GET', KEYS[1])
local begin = ARGV[1] .. ' ' .. ARGV[2] .. ' '
if not value or string.sub(value, 1, #begin) ~= begin then return {'none'} end
local counter = redis.call('HMGET', KEYS[2], 'number', 'line')
redis.call('DEL', KEYS[1])
if not counter[2] then return {'freed'} end
