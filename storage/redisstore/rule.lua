-- The beginning of every script here: the rule of fencing, marks and records.
-- On a replica every script answers the error READONLY, and nothing else.
-- A mark is a hash (number, grant, retired 0|1, incarnation, base); base is the highest
-- version of a deleted record of its resource. Records are a hash, key -> version:bytes.
-- Numbers are decimal text; up to 2^53-1 they compare exactly as doubles.

local MAX = 9007199254740991 -- 2^53-1

-- tostring would print 1e+14.
local function text(n) return string.format('%.0f', n) end

local replica = redis.error_reply('READONLY this server is a replica or its state is unknown')

-- Returns the id of this primary's replication history, or nil on a replica, whose answers
-- may be old.
local function primary()
  local info = redis.call('INFO', 'replication')
  if string.match(info, 'role:(%a+)') ~= 'master' then return nil end
  return string.match(info, 'master_replid:(%x+)')
end

-- Returns the incarnation of this server: one run of it, under one replication history;
-- nil on a replica.
local function incarnation()
  local history = primary()
  local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
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

local function save(key, number, grant, retired, now)
  redis.call('HSET', key, 'number', number, 'grant', grant, 'retired', retired, 'incarnation', now)
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

-- Splits a record into the text of its version, '0' where there is none, and its value.
local function split(record)
  if not record then return '0', '' end
  local colon = string.find(record, ':', 1, true)
  return string.sub(record, 1, colon - 1), string.sub(record, colon + 1)
end
