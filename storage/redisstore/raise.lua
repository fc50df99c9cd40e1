-- Returns {'ok'}, or {'stale', '0', reason, highest}; KEYS: mark, answers; ARGV: number, grant.

local now = incarnation()
if not now then return replica end
local m = load(KEYS[1], now)
if tonumber(ARGV[1]) > m.number then
  save(KEYS[1], ARGV[1], ARGV[2], '0', now, KEYS[2])
  return {'ok'}
end
local reason = current(m, ARGV[1], ARGV[2])
if reason then return {'stale', '0', reason, text(m.number)} end
return {'ok'}
