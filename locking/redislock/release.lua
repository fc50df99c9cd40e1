-- Returns {'freed'} if it ended this hold, {'none'} if there was none; KEYS: lock; ARGV: number, grant.

local h = hold(KEYS[1])
if not h or h.number ~= tonumber(ARGV[1]) or h.grant ~= ARGV[2] then return {'none'} end
redis.call('DEL', KEYS[1])
return {'freed'}
