-- Returns {'freed'} if it ended this hold, {'none'} if there was none; KEYS: lock, counter, queue, waiters; ARGV: number, grant.

local h = hold(KEYS[1])
if not h or h.number ~= tonumber(ARGV[1]) or h.grant ~= ARGV[2] then return {'none'} end
local counter = redis.call('HMGET', KEYS[2], 'number', 'line')
redis.call('DEL', KEYS[1])
if counter[2] then serve(math.max(tonumber(counter[1] or '0'), h.number)) end
return {'freed'}
