-- Returns {'ok'}, or {'refused', command, reason} for the first command that scripts of this user may not run; KEYS: what the commands touch; ARGV: per command its number of words, its words.
-- Each is run, in order. A server that takes no writes just now is no refusal.

local later = {OOM = true, NOREPLICAS = true, MISCONF = true, READONLY = true}
local at = 1
while at <= #ARGV do
  local last = at + tonumber(ARGV[at])
  local reply = redis.pcall(unpack(ARGV, at + 1, last))
  if type(reply) == 'table' and reply.err then
    -- Redis 6 begins with where in the script it is, and a dash before the code.
    local reason = string.gsub(reply.err, '^@user_script:%s*%d+:%s*', '')
    if not later[string.match(reason, '^%-?(%u+)')] then return {'refused', ARGV[at + 1], reason} end
  end
  at = last + 1
end
return {'ok'}
