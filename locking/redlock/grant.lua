-- Returns {'granted', ctr, left ms} or {'mine', number, left ms} or {'held', number, label, left ms} or {'lost'} or {'ended'} or {'exhausted'} or {'quarantine'}; KEYS: marker, lock, counter, tombstone; ARGV: longest ttl ms, grant, attempt, label, ttl ms, floor.
-- It is the first phase. The counter is written before the lock: a script that is stopped between wastes a number.

if not fit() then return {'quarantine'} end
local grant, attempt, label, ttl, floor = ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
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
  return {'granted', text(ctr), text(h.left)}
end
redis.call('HSET', KEYS[2], 'attempt', attempt, 'ctr', text(ctr), 'grant', grant, 'number', '0',
  'label', label, 'ttl', ttl, 'was', '0', 'pgrant', '', 'pnumber', '0')
-- There is no lock without expiry, not even where PEXPIRE is forbidden.
local set = redis.pcall('PEXPIRE', KEYS[2], ttl)
if type(set) == 'table' then
  redis.call('DEL', KEYS[2])
  return set
end
return {'granted', text(ctr), ttl}
