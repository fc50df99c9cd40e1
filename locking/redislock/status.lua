-- Returns {last number, held 0|1, label, left ms, waiters}; KEYS: lock, counter, queue.

local h = hold(KEYS[1])
local counter = redis.call('HMGET', KEYS[2], 'number', 'line')
local last = tonumber(counter[1] or '0')
local waiters = counter[2] and redis.call('LLEN', KEYS[3]) or 0
if not h then return {text(last), '0', '', '0', text(waiters)} end
measure(KEYS[1], h)
return {text(math.max(last, h.number)), '1', h.label, text(h.left), text(waiters)}
