-- Comes after hold.lua in the scripts that grant: KEYS are lock, counter, queue, waiters.
-- The queue is a list of grant ids in order of arrival. waiters has the place of each:
-- '<seen> <ttl> <channel> <label>', where seen is the server's time of the last Join in
-- milliseconds, and channel is where its process listens. A place is alive for PLACE after
-- seen, or before it: a clock that jumps may cost a place, and never keeps a dead one.
-- The counter's line is 'waiting' where the queue may have something in it, and 'pushed'
-- where, besides, the last grant was pushed: it was given to a waiter, for PUSH at most,
-- who has not asked since. PLACE and PUSH are milliseconds, set before this.

-- The counter is written before the lock: a script that is stopped between wastes a number
-- and grants nothing. line is what becomes of the counter's, nil if it is absent already.
local function take(number, grant, ttl, label, line)
  if line then
    redis.call('HSET', KEYS[2], 'number', text(number), 'grant', grant, 'line', line)
  else
    redis.call('HSET', KEYS[2], 'number', text(number), 'grant', grant)
  end
  redis.call('SET', KEYS[1], pack(number, grant, ttl, label), 'PX', ttl)
end

local function now()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Takes whoever is first and alive out of the line and returns it, or nil; the dead before
-- it go. What writes first here, LPOP, is not refused when memory is short, and neither is
-- what follows a script's first write.
local function first()
  local time = now()
  while true do
    local grant = redis.call('LPOP', KEYS[3])
    if not grant then return nil end
    local place = redis.call('HGET', KEYS[4], grant)
    if place then
      redis.call('HDEL', KEYS[4], grant)
      local seen, ttl, channel, label = string.match(place, '^(%d+) (%d+) (%S+) (.*)$')
      if math.abs(time - tonumber(seen)) <= PLACE then
        return {grant = grant, ttl = tonumber(ttl), channel = channel, label = label}
      end
    end
  end
end

-- Gives the lock, which is free, to the first in line. Returns its hold, or nil if there is
-- nobody. If that one's grant is mine, its caller takes the lock.
local function serve(last, mine)
  local w = last < MAX and first()
  if not w then
    redis.call('HDEL', KEYS[2], 'line')
    return nil
  end
  if w.grant == mine then return w end
  w.number, w.left = last + 1, math.min(w.ttl, PUSH)
  take(w.number, w.grant, text(w.left), w.label, 'pushed')
  -- A hint: where it is forbidden, the waiter finds its lock when it looks next.
  redis.pcall('PUBLISH', w.channel, string.match(KEYS[1], '{(.*)}'))
  return w
end

-- Gives grant a place at the end of the line, or keeps the one that it has. line is the
-- counter's.
local function wait(grant, ttl, label, channel, line)
  local seen = text(now())
  -- Searched, not remembered: queue and waiters may be evicted one without the other.
  if not redis.call('LPOS', KEYS[3], grant) then redis.call('RPUSH', KEYS[3], grant) end
  redis.call('PEXPIRE', KEYS[3], 2 * PLACE) -- first: so a place is kept when memory is short
  redis.call('HSET', KEYS[4], grant, seen .. ' ' .. ttl .. ' ' .. channel .. ' ' .. label)
  redis.call('PEXPIRE', KEYS[4], 2 * PLACE)
  if not line then redis.call('HSET', KEYS[2], 'line', 'waiting') end
end
