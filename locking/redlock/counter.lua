-- Returns {ctr, number, grant} of one counter, or {'quarantine', run id, marker}; KEYS: marker, lock, counter; ARGV: terms, 'fit' or 'any' (asked also in quarantine).
-- From here on nothing that was granted on this node before can be confirmed: whoever takes the counter over takes
-- it over from all of those, whatever clocks do. The hold of a lock stays.

local out = unfit()
if out and ARGV[2] == 'fit' then return out end
local c = redis.call('HMGET', KEYS[3], 'ctr', 'number', 'grant')
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('HSET', KEYS[2], 'ctr', '') end
return {c[1] or '0', c[2] or '0', c[3] or ''}
