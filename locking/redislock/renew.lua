-- Returns {'held'} if the hold lasts for at least ttl now, {'lost'} if there is no such hold; KEYS: lock; ARGV: number, grant, ttl ms.

local h = hold(KEYS[1])
if not h or h.number ~= tonumber(ARGV[1]) or h.grant ~= ARGV[2] then return {'lost'} end
measure(KEYS[1], h)
local ttl = tonumber(ARGV[3])
if h.jumped or ttl > h.left then
  ttl = math.max(ttl, h.left)
  -- First the expiry: it is not refused when memory is short, and what follows a script's
  -- first write is not refused either.
  redis.call('PEXPIRE', KEYS[1], text(ttl))
  if ttl ~= h.ttl then
    redis.call('SET', KEYS[1], pack(h.number, h.grant, text(ttl), h.label), 'KEEPTTL')
  end
end
return {'held'}
