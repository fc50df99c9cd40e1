-- Part of most scripts here: the hold of a lock, and numbers as text.
-- The lock is a string, '<number> <grant> <ttl> <label>', whose expiry is the hold's; ttl
-- is the most milliseconds that the hold can still have, as they were counted when it was set.
-- The counter is a hash without expiry: the last number, its grant, and line, which is
-- absent where nobody waits (see line.lua).

local MAX = 9007199254740991 -- 2^53-1: up to here a double is exact

-- tostring would print 1e+14.
local function text(n) return string.format('%.0f', n) end

local function pack(number, grant, ttl, label)
  return text(number) .. ' ' .. grant .. ' ' .. ttl .. ' ' .. label
end

-- Returns the hold, or nil.
local function hold(key)
  local value = redis.call('GET', key)
  if not value then return nil end
  local number, grant, ttl, label = string.match(value, '^(%d+) (%w+) (%d+) (.*)$')
  return {number = tonumber(number), grant = grant, ttl = tonumber(ttl), label = label}
end

-- Sets left, how long the hold lasts. Where the server's clock has jumped back, the expiry
-- lies further away than the hold's ttl: then jumped is set, and left is cut to the ttl.
-- So is a hold whose expiry was removed.
local function measure(key, h)
  h.left = redis.call('PTTL', key)
  h.jumped = h.left < 0 or h.left > h.ttl
  if h.jumped then h.left = h.ttl end
end
