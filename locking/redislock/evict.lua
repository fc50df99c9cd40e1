-- Returns {'freed'} if it ended the hold of this number, {'none'} if there was none; KEYS: lock, counter, queue, waiters; ARGV: number.
-- It stands before hold.lua and goes on in next.lua, as release.lua does.

local value = redis.call('GET', KEYS[1])
if not value or string.match(value, '^%d+') ~= ARGV[1] then return {'none'} end
local counter = redis.call('HMGET', KEYS[2], 'number', 'line')
redis.call('DEL', KEYS[1])
if not counter[2] then return {'freed'} end
