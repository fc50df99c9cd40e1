-- Returns {'left'}; KEYS: lock, counter, queue, waiters; ARGV: grant.

local grant = ARGV[1]
local h = hold(KEYS[1])
local counter = redis.call('HMGET', KEYS[2], 'number', 'grant', 'line')
redis.call('LREM', KEYS[3], 0, grant)
redis.call('HDEL', KEYS[4], grant)
-- A lock that was pushed to this grant, whether it lasts or is over, goes to the next. If it
-- was pushed to another and is over, it is for that one to ask: it has not ended.
if counter[3] == 'pushed' and counter[2] == grant then
  if h and h.grant == grant then redis.call('DEL', KEYS[1]) end
  if not h or h.grant == grant then serve(tonumber(counter[1])) end
end
return {'left'}
