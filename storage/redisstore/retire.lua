-- Returns {'ok'}; KEYS: mark; ARGV: number, grant.

local now = incarnation()
if not now then return replica end
if not current(load(KEYS[1], now), ARGV[1], ARGV[2]) then
  save(KEYS[1], ARGV[1], '', '1', now)
end
return {'ok'}
