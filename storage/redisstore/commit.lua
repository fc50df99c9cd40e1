-- Returns {'ok', per operation: version, sum}, or {'stale', index of the token, reason, highest}, or {'data', index of the operation, reason, have, want}.
-- KEYS: per token mark, records; ARGV: number of tokens, per token number, grant, per operation kind, position of its token (1..), key, and for put: value, for add: delta, min, for require: version.
-- storage.Evaluate is the meaning. All that can fail comes before the first write, but for a command that the user may not run.
-- Deletes come first: without HDEL nothing is written then, and whoever lacks HSET could not raise.

local now = incarnation()
if not now then return replica end

local at = 2
local bases, raised = {}, {}
for i = 1, tonumber(ARGV[1]) do
  local m = load(KEYS[2 * i - 1], now)
  local reason = current(m, ARGV[at], ARGV[at + 1])
  if reason then return {'stale', text(i - 1), reason, text(m.number)} end
  bases[i] = m.base
  at = at + 2
end

-- Returns the number that a value counts, or nil if it is not the one text of one.
local function counter(value)
  if #value > 17 then return nil end
  if value ~= '0' and not string.match(value, '^%-?[1-9]%d*$') then return nil end
  local n = tonumber(value)
  if n > MAX or n < -MAX then return nil end
  return n
end

local puts, deletes = {}, {}
local after = {}    -- the version of each changed record
local requires = {} -- positions in the answer that show the version after the commit
local answer = {'ok'}
local op = 0
while at <= #ARGV do
  local kind, of, key = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  at = at + 3
  local id = text(of) .. ':' .. key
  local records = KEYS[2 * of]
  local version, value = split(redis.call('HGET', records, key))
  local exists = version ~= '0'
  local new, sum = '0', '0'

  if kind == 'require' then
    local want = ARGV[at]
    at = at + 1
    if version ~= want then return {'data', text(op), 'version', version, want} end
    requires[#answer + 1] = id
    new = version
  elseif kind == 'delete' then
    if exists then
      deletes[#deletes + 1] = {records, key}
      raised[of] = math.max(raised[of] or bases[of], tonumber(version))
      after[id] = '0'
    end
  else
    if exists then new = text(tonumber(version) + 1) else new = text(bases[of] + 1) end
    if kind == 'put' then
      value = ARGV[at]
      at = at + 1
    else
      local delta, min = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
      at = at + 2
      local have = 0
      if exists then
        have = counter(value)
        if not have then return {'data', text(op), 'counter', '0', '0'} end
      end
      -- A sum beyond MAX may be rounded, but never back to MAX or below: 2^53 is exact.
      local total = have + delta
      if total > MAX or total < -MAX then return {'data', text(op), 'range', text(have), '0'} end
      if total < min then return {'data', text(op), 'minimum', text(have), text(min)} end
      sum = text(total)
      value = sum
    end
    puts[#puts + 1] = {records, key, new .. ':' .. value}
    after[id] = new
  end
  answer[#answer + 1] = new
  answer[#answer + 1] = sum
  op = op + 1
end
for position, id in pairs(requires) do
  answer[position] = after[id] or answer[position]
end

for _, del in ipairs(deletes) do redis.call('HDEL', del[1], del[2]) end
for _, put in ipairs(puts) do redis.call('HSET', put[1], put[2], put[3]) end
for i, base in pairs(raised) do
  if base > bases[i] then redis.call('HSET', KEYS[2 * i - 1], 'base', text(base)) end
end
return answer
