-- Returns {'freed'} if it ended this hold, {'none'} if there was none; KEYS: marker, lock, counter; ARGV: terms, number, grant (empty: whoever's it is).
-- A node in quarantine is cleaned like any other: it only forgets.

local h = lock()
if not h or h.number == 0 or h.number ~= tonumber(ARGV[2]) or (ARGV[3] ~= '' and h.grant ~= ARGV[3]) then return {'none'} end
redis.call('DEL', KEYS[2])
wake(h.number)
return {'freed'}
