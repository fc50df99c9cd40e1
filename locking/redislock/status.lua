-- Returns {last number, held 0|1, label, left ms}; KEYS: lock, counter.

local h = hold(KEYS[1])
local last = tonumber(redis.call('HGET', KEYS[2], 'number') or '0')
if not h then return {text(last), '0', '', '0'} end
return {text(math.max(last, h.number)), '1', h.label, text(h.left)}
