-- Returns {'held'} if the hold lasts for at least ttl now, {'lost'} if there is no such hold, or {'quarantine', run id, marker}; KEYS: marker, lock, counter; ARGV: terms, number, grant, ttl ms.

local out = unfit()
if out then return out end
local h = lock()
if not h or h.number ~= tonumber(ARGV[2]) or h.grant ~= ARGV[3] then return {'lost'} end
local ttl = tonumber(ARGV[4])
if h.jumped or ttl > h.left then
  ttl = math.max(ttl, h.left)
  redis.call('PEXPIRE', KEYS[2], text(ttl))
  if ttl ~= h.ttl then redis.call('HSET', KEYS[2], 'ttl', text(ttl)) end
end
return {'held'}
