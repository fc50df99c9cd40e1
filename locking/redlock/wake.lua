-- For scripts that end a hold: tells those who wait, on "<prefix>:{<resource>}:free", its number and how many listen.
-- Nothing depends on it: where it is forbidden (ACL), waiters look by themselves.

local function wake(number)
  local channel = string.gsub(KEYS[2], ':lock$', ':free')
  local ears = redis.pcall('PUBSUB', 'NUMSUB', channel)
  local n = ears[2] or 1
  if n > 0 then redis.pcall('PUBLISH', channel, text(number) .. ' ' .. text(n)) end
end
