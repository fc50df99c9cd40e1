-- Returns {'granted', ctr} or {'mine', number, left ms} or {'held', number, label, left ms} or {'lost'} or {'ended'} or {'exhausted'} or {'quarantine', run id, marker}; KEYS: marker, lock, counter, tombstone; ARGV: terms, grant, attempt, label, window ms, floor.
-- It is the first phase. What it grants lasts for the window only, until the confirm gives it the TTL: so nobody who
-- dies between leaves a lock behind for long. The counter is written before the lock: a script that is stopped between
-- wastes a number.

local out = unfit()
if out then return out end
local grant, attempt, label, window, floor = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
-- The attempt was given up before this request arrived.
if redis.call('EXISTS', KEYS[4]) == 1 then return {'ended'} end
local h = lock()
local counter = redis.call('HMGET', KEYS[3], 'ctr', 'grant')
local ctr = tonumber(counter[1] or '0') + 1

if h and h.jumped then redis.call('PEXPIRE', KEYS[2], text(h.left)) end
if h and h.grant ~= grant then return {'held', text(h.number), h.label, text(h.left)} end
if h and h.number > floor then return {'mine', text(h.number), text(h.left)} end
if not h and counter[2] == grant then return {'lost'} end
if ctr > MAX or floor >= MAX then return {'exhausted'} end

redis.call('HSET', KEYS[3], 'ctr', text(ctr))
if h and h.number > 0 then
  -- A re-issue: the hold keeps its number until the confirm, and its expiry.
  redis.call('HSET', KEYS[2], 'attempt', attempt, 'ctr', text(ctr), 'was', text(h.number))
  return {'granted', text(ctr)}
end
redis.call('HSET', KEYS[2], 'attempt', attempt, 'ctr', text(ctr), 'grant', grant, 'number', '0',
  'label', label, 'ttl', window, 'was', '0', 'pgrant', '', 'pnumber', '0')
-- There is no lock without expiry, not even where PEXPIRE is forbidden.
local set = redis.pcall('PEXPIRE', KEYS[2], window)
if type(set) == 'table' then
  redis.call('DEL', KEYS[2])
  return set
end
return {'granted', text(ctr)}
