-- Returns {'hold', number, drawn 0|1, left ms} or {'held', number, label, left ms} or {'lost'} or {'exhausted'}; KEYS: lock, counter; ARGV: grant, label, ttl ms, floor.
-- All that can fail comes before the first write, but for a command that the user may not run.
-- The counter is written before the lock: a script that is stopped between wastes a number and grants nothing.

local grant, label, ttl, floor = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local h = hold(KEYS[1])
local counter = redis.call('HMGET', KEYS[2], 'number', 'grant')
local last = tonumber(counter[1] or '0')
local number = math.max(last, floor) + 1

if not h then
  if counter[2] == grant then return {'lost'} end
  if number > MAX then return {'exhausted'} end
  redis.call('HSET', KEYS[2], 'number', text(number), 'grant', grant)
  redis.call('HSET', KEYS[1], 'number', text(number), 'grant', grant, 'label', label, 'ttl', ttl)
  -- There is no hold without expiry, not even where PEXPIRE is forbidden.
  local set = redis.pcall('PEXPIRE', KEYS[1], ttl)
  if type(set) == 'table' then
    redis.call('DEL', KEYS[1])
    return set
  end
  return {'hold', text(number), '1', ttl}
end

local mine = h.grant == grant
local reissue = mine and h.number <= floor
if reissue and number > MAX then return {'exhausted'} end
if h.jumped then redis.call('PEXPIRE', KEYS[1], text(h.left)) end
if not mine then return {'held', text(h.number), h.label, text(h.left)} end
if not reissue then return {'hold', text(h.number), '0', text(h.left)} end
redis.call('HSET', KEYS[2], 'number', text(number), 'grant', grant)
redis.call('HSET', KEYS[1], 'number', text(number))
return {'hold', text(number), '1', text(h.left)}
