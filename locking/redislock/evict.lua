-- Returns {'freed'} if it ended the hold of this number, {'none'} if there was none; KEYS: lock; ARGV: number.

local h = hold(KEYS[1])
if not h or h.number ~= tonumber(ARGV[1]) then return {'none'} end
redis.call('DEL', KEYS[1])
return {'freed'}
