-- Returns {'ok'}; KEYS: mark, answers; ARGV: number, grant (empty: whoever's it is).

local now = incarnation()
if not now then return replica end
local m = load(KEYS[1], now)
local number = tonumber(ARGV[1])
if number > m.number or number == m.number and (ARGV[2] == '' or ARGV[2] == m.grant) then
  save(KEYS[1], ARGV[1], '', '1', now, KEYS[2])
end
return {'ok'}
