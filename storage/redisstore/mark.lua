-- Returns {number, grant, retired 0|1}, the grant empty where the mark is retired; KEYS: mark.

local now = incarnation()
if not now then return replica end
local m = load(KEYS[1], now)
if m.retired then return {text(m.number), '', '1'} end
return {text(m.number), m.grant, '0'}
