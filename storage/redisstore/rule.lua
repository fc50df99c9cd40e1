-- The beginning of every script here: the rule of fencing, marks, records and answers.
-- On a replica every script answers the error READONLY, and nothing else.
-- A mark is a hash (number, grant, retired 0|1, incarnation, base); base is the highest
-- version of a deleted record of its resource. Records are a hash, key -> version:bytes.
-- Numbers are decimal text; up to 2^53-1 they compare exactly as doubles.
--
-- Answers, the records of idempotency keys, are a hash of the resource that the keys belong to:
--   <key>     fingerprint, a space, and what commit.lua answered, in words with spaces between
--   #<place>  until when the answer of a key is kept, in ms of the server's clock, the number
--             of the token that it was given to, and the key; places count up from 1
--   *         the first place in use, the next one, and the latest time of all answers
-- No key begins with # or *. An answer is kept until its time, and for as long as its token is
-- the mark. So the hash has no expiry while it has an answer of the mark; and whatever ends a
-- mark lets the hash expire at the latest time in it, when no answer is due any more.

local MAX = 9007199254740991 -- 2^53-1

-- tostring would print 1e+14.
local function text(n) return string.format('%.0f', n) end

local replica = {err = 'READONLY this server is a replica or its state is unknown'}

-- Returns the 40 digits behind a name in an answer of INFO. A plain search for a name with
-- its line's end before it costs a tenth of a pattern.
local function digits(info, name)
  local _, last = string.find(info, name, 1, true)
  return last and string.sub(info, last + 1, last + 40)
end

-- Returns the id of this primary's replication history, or nil on a replica, whose answers
-- may be old.
local function primary(info)
  info = info or redis.call('INFO', 'replication')
  if not string.find(info, '\nrole:master\r', 1, true) then return nil end
  return digits(info, '\nmaster_replid:')
end

-- Returns the incarnation of this server: one run of it, under one replication history;
-- nil on a replica. Neither is enough. A primary that is replaced and takes over again is
-- the same run. A replica of a cluster that is restarted has the history of its primary, and
-- keeps it when it is promoted before it has found the primary.
local function incarnation()
  local server, replication
  if redis.REDIS_VERSION_NUM then -- 7.0 or later: INFO takes several sections, for less than two calls
    server = redis.call('INFO', 'server', 'replication')
    replication = server
  else
    server, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
  end
  local run, history = digits(server, '\nrun_id:'), primary(replication)
  if not run or not history then return nil end
  return run .. ':' .. history
end

-- Returns the mark as the rule has to see it: an absent one is {0, retired}, one of another
-- incarnation is retired.
local function load(key, now)
  local m = redis.call('HMGET', key, 'number', 'grant', 'retired', 'incarnation', 'base')
  return {
    number = tonumber(m[1] or '0'),
    grant = m[2] or '',
    retired = m[3] ~= '0' or m[4] ~= now,
    base = tonumber(m[5] or '0'),
  }
end

-- Writes the mark of a resource in the place of one that ends, or has ended. The answers that
-- are there were given to that one, or to earlier ones: they go by themselves when the last
-- of them is due, at once if it was. PEXPIREAT takes an absolute time, so a mark that ends
-- twice, or is followed by others, never keeps them longer. An answer that is given to the
-- new mark takes the expiry off again (carry.lua), so it is not lost with them.
local function save(key, number, grant, retired, now, answers)
  local window = answers and redis.call('HGET', answers, '*')
  redis.call('HSET', key, 'number', number, 'grant', grant, 'retired', retired, 'incarnation', now)
  if not window then return end
  local latest = string.match(window, '%d+$')
  local clock = redis.call('TIME')
  if tonumber(latest) > clock[1] * 1000 + math.floor(clock[2] / 1000) then
    redis.call('PEXPIREAT', answers, latest)
  else
    redis.call('UNLINK', answers) -- a time that has passed would free it in place: a second for a million answers
  end
end

-- Returns nil if the token is the mark, else the reason why it is not.
local function current(m, number, grant)
  number = tonumber(number)
  if number < m.number then return 'superseded' end
  if number > m.number then return 'ungranted' end
  if m.retired then return 'retired' end
  if grant ~= m.grant then return 'duplicate' end
  return nil
end
