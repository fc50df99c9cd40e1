-- Returns {'hold', number, drawn 0|1, left ms} or {'held', number, label, left ms} or {'lost'} or {'exhausted'}; KEYS: lock, counter, queue, waiters; ARGV: grant, label, ttl ms, floor, channel or '' for who does not wait.
-- Goes on after free.lua. All that can fail comes before the first write, but for a command
-- that the user may not run.

local channel = ARGV[5]
local pushed = line == 'pushed' and counter[2] == grant -- to this grant, which asks only now
local h = hold(KEYS[1])

if not h then
  if counter[2] == grant and not pushed then return {'lost'} end
  if number > MAX then return {'exhausted'} end
  local w = line and serve(last, grant)
  if not w or w.grant == grant then
    take(number, grant, ttl, label, w and 'waiting')
    return {'hold', text(number), '1', ttl}
  end
  if channel ~= '' then wait(grant, ttl, label, channel, 'pushed') end
  return {'held', text(w.number), w.label, text(w.left)}
end

measure(KEYS[1], h)
local mine = h.grant == grant
local reissue = mine and h.number <= floor
if reissue and number > MAX then return {'exhausted'} end
if mine and pushed then
  if not reissue then number = h.number end
  redis.call('PEXPIRE', KEYS[1], ttl) -- first: so it is not refused when memory is short
  take(number, grant, ttl, label, 'waiting')
  return {'hold', text(number), '1', ttl}
end
if h.jumped then redis.call('PEXPIRE', KEYS[1], text(h.left)) end
if not mine then
  if channel ~= '' then wait(grant, ttl, label, channel, line) end
  return {'held', text(h.number), h.label, text(h.left)}
end
if not reissue then return {'hold', text(h.number), '0', text(h.left)} end
redis.call('HSET', KEYS[2], 'number', text(number), 'grant', grant)
redis.call('SET', KEYS[1], pack(number, grant, text(h.ttl), h.label), 'KEEPTTL')
return {'hold', text(number), '1', text(h.left)}
