-- Returns {'ok', '1' if the mark was retired by this, else '0'}; KEYS: mark, answers.
-- One of another incarnation is retired as well, see retire.lua. An absent one stays absent.

local now = incarnation()
if not now then return replica end
local m = redis.call('HMGET', KEYS[1], 'number', 'retired')
if not m[1] or m[2] ~= '0' then return {'ok', '0'} end
save(KEYS[1], m[1], '', '1', now, KEYS[2])
return {'ok', '1'}
