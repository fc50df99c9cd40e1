-- Returns {'status', last confirmed number, number of the hold or 0, label, left ms} or {'quarantine', run id, marker}; KEYS: marker, lock, counter; ARGV: terms.

local out = unfit()
if out then return out end
local h = lock()
local last = redis.call('HGET', KEYS[3], 'number') or '0'
if not h or h.number == 0 then return {'status', last, '0', '', '0'} end
return {'status', last, text(h.number), h.label, text(h.left)}
