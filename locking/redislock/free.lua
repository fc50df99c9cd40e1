-- The usual attempt: nobody holds the lock and nobody waits. It stands before hold.lua, and
-- what it cannot answer goes on in acquire.lua: every command and every function costs time,
-- even one that is not called.

local grant, label, ttl, floor = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local counter = redis.call('HMGET', KEYS[2], 'number', 'grant', 'line')
local last, line = tonumber(counter[1] or '0'), counter[3]
local number = math.max(last, floor) + 1

if not line and counter[2] ~= grant and number <= 9007199254740991 then
  local n = string.format('%.0f', number)
  -- Refused with an error, say because memory is short, there may be a hold all the same.
  local set = redis.pcall('SET', KEYS[1], n .. ' ' .. grant .. ' ' .. ttl .. ' ' .. label, 'NX', 'PX', ttl)
  if set and set.ok then
    -- There is no hold without its number in the counter, not even where HSET is forbidden.
    local counted = redis.pcall('HSET', KEYS[2], 'number', n, 'grant', grant)
    if type(counted) == 'table' then
      redis.call('DEL', KEYS[1])
      return counted
    end
    return {'hold', n, '1', ttl}
  end
end
