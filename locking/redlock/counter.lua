-- Returns {ctr, number, grant} of one counter; KEYS: marker, lock, counter; ARGV: longest ttl ms.

local c = redis.call('HMGET', KEYS[3], 'ctr', 'number', 'grant')
if not fit() then return {'quarantine'} end
return {c[1] or '0', c[2] or '0', c[3] or ''}
