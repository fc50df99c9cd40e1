-- Returns {'aborted'} if it ended this attempt, {'none'} if there was nothing; KEYS: marker, lock, counter, tombstone; ARGV: terms, attempt, tombstone ms.
-- A request of the attempt that is still under way finds the tombstone. Counters never go back; what the counter
-- remembers of the last grant does, or a grant that was never given would count as ended.

local h = lock()
redis.call('SET', KEYS[4], '1', 'PX', ARGV[3])
if not h or h.attempt ~= ARGV[2] then return {'none'} end
if h.was ~= '0' then
  -- A re-issue that failed leaves the hold that was there; its confirm, if still under way, finds another granting.
  redis.call('HSET', KEYS[2], 'ctr', '')
  return {'aborted'}
end
if h.number > 0 and redis.call('HGET', KEYS[3], 'grant') == h.grant then
  redis.call('HSET', KEYS[3], 'grant', h.pgrant, 'number', h.pnumber)
end
redis.call('DEL', KEYS[2])
if h.number > 0 then wake(h.number) end
return {'aborted'}
