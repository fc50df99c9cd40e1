-- Returns {'seeded'}; KEYS: marker, lock, counter; ARGV: terms, ctr, number, grant.
-- The counter becomes the greater of its own and the given one.

local c = redis.call('HMGET', KEYS[3], 'ctr', 'number')
local ctr = math.max(tonumber(c[1] or '0'), tonumber(ARGV[2]))
redis.call('HSET', KEYS[3], 'ctr', text(ctr))
if tonumber(ARGV[3]) >= tonumber(c[2] or '0') then
  redis.call('HSET', KEYS[3], 'number', ARGV[3], 'grant', ARGV[4])
end
return {'seeded'}
