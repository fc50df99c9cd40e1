-- Returns {'ok'}; KEYS: mark, answers; ARGV: number, grant.
-- A mark of another incarnation is retired as well: should its server come back (a slot of
-- a cluster that moved away), the token must not.

local now = incarnation()
if not now then return replica end
local m = load(KEYS[1], now)
if m.number == tonumber(ARGV[1]) and m.grant == ARGV[2] then
  save(KEYS[1], ARGV[1], '', '1', now, KEYS[2])
end
return {'ok'}
