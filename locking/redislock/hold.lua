-- The beginning of every script here: the hold of a lock, and numbers as text.
-- The lock is a hash (number, grant, label, ttl) whose expiry is the hold's; ttl is the
-- most milliseconds that the hold can still have, as they were counted when it was set.
-- The counter is a hash (number, grant) without expiry: the last number and its grant.

local MAX = 9007199254740991 -- 2^53-1: up to here a double is exact

-- tostring would print 1e+14.
local function text(n) return string.format('%.0f', n) end

-- Returns the hold, or nil. left is how long it lasts. Where the server's clock has jumped
-- back, the expiry lies further away than the hold's ttl: then jumped is set, and left is
-- cut to the ttl. So is a hold whose expiry was removed.
local function hold(key)
  local h = redis.call('HMGET', key, 'number', 'grant', 'label', 'ttl')
  if not h[1] then return nil end
  local ttl = tonumber(h[4])
  local left = redis.call('PTTL', key)
  local jumped = left < 0 or left > ttl
  if jumped then left = ttl end
  return {number = tonumber(h[1]), grant = h[2], label = h[3], ttl = ttl, left = left, jumped = jumped}
end
