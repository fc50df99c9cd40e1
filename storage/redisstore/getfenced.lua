-- Returns {'ok', record, empty if there is none}, or {'stale', '0', reason, highest}; KEYS: mark, records; ARGV: number, grant, key.

local now = incarnation()
if not now then return replica end
local m = load(KEYS[1], now)
local reason = current(m, ARGV[1], ARGV[2])
if reason then return {'stale', '0', reason, text(m.number)} end
return {'ok', redis.call('HGET', KEYS[2], ARGV[3]) or ''}
