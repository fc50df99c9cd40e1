-- Returns {'held'} if the hold lasts for at least ttl now, {'lost'} if there is no such hold; KEYS: lock; ARGV: number, grant, ttl ms.

local h = hold(KEYS[1])
if not h or h.number ~= tonumber(ARGV[1]) or h.grant ~= ARGV[2] then return {'lost'} end
local ttl = tonumber(ARGV[3])
if h.jumped or ttl > h.left then
  ttl = math.max(ttl, h.left)
  -- First the expiry: it is not refused when memory is short, and what follows a script's
  -- first write is not refused either.
  redis.call('PEXPIRE', KEYS[1], text(ttl))
  if ttl ~= h.ttl then redis.call('HSET', KEYS[1], 'ttl', text(ttl)) end
end
return {'held'}
