-- The beginning of every script here: whether the node is fit, the hold of a lock, numbers as text.
-- KEYS[1] is the marker, KEYS[2] the lock, KEYS[3] the counter; ARGV[1] is the terms, "<longest TTL ms>:<number of nodes>".
-- The lock is a hash that expires: attempt and ctr (the exact granting), grant, number (0
-- until confirmed), label, ttl, was (the number of this grant's hold before this attempt),
-- pgrant and pnumber (what the counter said before the confirm, for an abort to restore).
-- The counter is a hash without expiry: ctr, and the number and grant of the last confirm.

local MAX = 9007199254740991 -- 2^53-1: up to here a double is exact

-- tostring would print 1e+14.
local function text(n) return string.format('%.0f', n) end

-- A node is fit if its marker was written for these terms, and for this run of the server
-- or as durable. Any other node has lost, or may have lost, what it granted, or belongs to
-- a cluster in which other numbers of nodes are a majority. Returns nil, or what to answer:
-- {'quarantine', run id, marker}.
local function unfit()
  local marker = redis.call('GET', KEYS[1]) or ''
  if marker == 'durable:' .. ARGV[1] then return nil end
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or ''
  if run ~= '' and marker == run .. ':' .. ARGV[1] then return nil end
  return {'quarantine', run, marker}
end

-- Returns the lock, or nil. Where the server's clock has jumped back the expiry lies further
-- away than the ttl: left is then cut to it, and jumped is set.
local function lock()
  local h = redis.call('HMGET', KEYS[2], 'attempt', 'ctr', 'grant', 'number', 'label', 'ttl', 'was', 'pgrant', 'pnumber')
  if not h[1] then return nil end
  local ttl = tonumber(h[6])
  local left = redis.call('PTTL', KEYS[2])
  local jumped = left < 0 or left > ttl
  if jumped then left = ttl end
  return {attempt = h[1], ctr = h[2], grant = h[3], number = tonumber(h[4]), label = h[5], ttl = ttl,
    was = h[7], pgrant = h[8], pnumber = h[9], left = left, jumped = jumped}
end
