-- Returns per commit: what commit.lua answers, in words with spaces between, or 'failed' or 'unknown', and what stopped it.
-- KEYS: those of the commits, one after the other; ARGV: per commit 'put', number, grant, key, value, or else how many keys and arguments it has, and these arguments as for commit.lua.
-- Each commit is judged and applied by itself, after those before it. What stops one does not stop the others.

local now = incarnation()
if not now then return replica end

-- Returns the answer of a commit that was stopped by an error. Redis 6 begins the reason with
-- where in the script it is, and a dash before the code.
local function stopped(reason)
  reason = string.gsub(type(reason) == 'table' and reason.err or tostring(reason), '^@user_script:%s*%d+:%s*', '')
  return (wrote and 'unknown ' or 'failed ') .. string.gsub(reason, '^%-', '')
end

local all = {}
local k, at = 0, 1
while at <= #ARGV do
  local answer
  wrote = false
  if ARGV[at] == 'put' then
    local done, version, refusal = pcall(put, now, KEYS[k + 1], KEYS[k + 2], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
    if not done then
      answer = stopped(version)
    elseif refusal then
      answer = table.concat(refusal, ' ')
    else
      answer = 'ok ' .. version .. ' 0'
    end
    k, at = k + 2, at + 5
  else
    local n, last = tonumber(ARGV[at]), at + 1 + tonumber(ARGV[at + 1])
    local done, reply = pcall(carry, now, k, n, at + 2, last)
    answer = done and table.concat(reply, ' ') or stopped(reply)
    k, at = k + n, last + 1
  end
  all[#all + 1] = answer
end
return all
