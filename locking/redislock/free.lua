-- The usual attempt, between hold.lua and line.lua: nobody holds the lock and nobody waits.
-- It is here, before all else, because every command and every function costs time. What it
-- cannot answer goes on in acquire.lua.

local grant, label, ttl, floor = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local counter = redis.call('HMGET', KEYS[2], 'number', 'grant', 'line')
local last, line = tonumber(counter[1] or '0'), counter[3]
local number = math.max(last, floor) + 1

if not line and counter[2] ~= grant and number <= MAX then
  -- Refused with an error, say because memory is short, there may be a hold all the same.
  local set = redis.pcall('SET', KEYS[1], pack(number, grant, ttl, label), 'NX', 'PX', ttl)
  if set and set.ok then
    -- There is no hold without its number in the counter, not even where HSET is forbidden.
    local counted = redis.pcall('HSET', KEYS[2], 'number', text(number), 'grant', grant)
    if type(counted) == 'table' then
      redis.call('DEL', KEYS[1])
      return counted
    end
    return {'hold', text(number), '1', ttl}
  end
end
