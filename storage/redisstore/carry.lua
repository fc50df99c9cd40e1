-- How a commit is carried out: what commit.lua and commits.lua share.
-- storage.Evaluate is the meaning. All that can fail comes before the first write, but for a command that the user may not run.
-- Deletes come first: without HDEL nothing is written then, and whoever lacks HSET could not raise.

-- Tells, of a commit that was stopped by an error, whether it had written before.
local wrote = false

-- Returns why a token is not the mark: the index of the token, the reason, and the highest number.
local function stale(mark, now, index, number, grant)
  local m = load(mark, now)
  return {'stale', text(index), current(m, number, grant), text(m.number)}
end

-- Puts one record under one token. That is what most commits are, and it costs a sixth less
-- without what the others need. Returns the new version, or nil and the refusal.
local function put(now, mark, records, number, grant, name, value)
  local m = redis.call('HMGET', mark, 'number', 'grant', 'retired', 'incarnation', 'base')
  if m[1] ~= number or m[2] ~= grant or m[3] ~= '0' or m[4] ~= now then
    return nil, stale(mark, now, 0, number, grant)
  end
  local record = redis.call('HGET', records, name)
  local version = text(tonumber(record and string.match(record, '^%d+') or m[5] or '0') + 1)
  redis.call('HSET', records, name, version .. ':' .. value)
  return version
end

-- Carries out the commit whose keys are the n behind KEYS[k] and whose arguments are
-- ARGV[at] to ARGV[last], both as commit.lua names them. Returns its answer.
local function carry(now, k, n, at, last)
  local from = at
  local tokens = tonumber(ARGV[at])
  at = at + 1 + 2 * tokens -- of the next argument

  -- The answer is looked up before the fence is judged: a holder whose token ended must not be
  -- told "refused" of what was applied.
  local answers = n > 2 * tokens and KEYS[k + n]
  local key, fingerprint, lasting, number, window
  if answers then
    key, fingerprint, lasting, number = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    at = at + 4
    local kept = redis.call('HMGET', answers, key, '*')
    if kept[1] then return {'again', kept[1]} end
    window = kept[2] or '1 1 0'
  end

  local bases = {} -- per token: the base, false for 0
  for i = 1, tokens do
    local mark, number, grant = KEYS[k + 2 * i - 1], ARGV[from + 2 * i - 1], ARGV[from + 2 * i]
    local m = redis.call('HMGET', mark, 'number', 'grant', 'retired', 'incarnation', 'base')
    -- The usual case; both are decimal text, which has one form per number.
    if m[1] ~= number or m[2] ~= grant or m[3] ~= '0' or m[4] ~= now then
      return stale(mark, now, i - 1, number, grant)
    end
    bases[i] = m[5]
  end

  -- Returns the number that a value counts, or nil if it is not the one text of one.
  local function counter(value)
    if #value > 17 then return nil end
    if value ~= '0' and not string.match(value, '^%-?[1-9]%d*$') then return nil end
    local n = tonumber(value)
    if n > MAX or n < -MAX then return nil end
    return n
  end

  local puts, deletes = {}, {} -- records, key, value of each; records, key of each
  local raised = {}            -- per token: its new base

  -- Judges the operations.
  local function judge()
    local answer = {'ok'}
    local after = {}    -- the version of each changed record
    local requires = {} -- positions in the answer that show the version after the commit
    local op = 0
    while at <= last do
      local kind, of, name = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
      local id = ARGV[at + 1] .. ':' .. name
      at = at + 3
      local records = KEYS[k + 2 * of]
      local record = redis.call('HGET', records, name)
      local version = record and string.match(record, '^%d+') or '0'
      local new, sum = '0', '0'

      if kind == 'require' then
        local want = ARGV[at]
        at = at + 1
        if version ~= want then return {'data', text(op), 'version', version, want} end
        requires[#answer + 1] = id
        new = version
      elseif kind == 'delete' then
        if record then
          deletes[#deletes + 1] = records
          deletes[#deletes + 1] = name
          raised[of] = math.max(raised[of] or tonumber(bases[of] or '0'), tonumber(version))
          after[id] = '0'
        end
      else
        if record then new = text(tonumber(version) + 1) else new = text(tonumber(bases[of] or '0') + 1) end
        local value = ARGV[at]
        at = at + 1
        if kind == 'add' then
          local delta, min = tonumber(value), tonumber(ARGV[at])
          at = at + 1
          local have = 0
          if record then
            have = counter(string.sub(record, #version + 2))
            if not have then return {'data', text(op), 'counter', '0', '0'} end
          end
          -- A sum beyond MAX may be rounded, but never back to MAX or below: 2^53 is exact.
          local total = have + delta
          if total > MAX or total < -MAX then return {'data', text(op), 'range', text(have), '0'} end
          if total < min then return {'data', text(op), 'minimum', text(have), text(min)} end
          sum = text(total)
          value = sum
        end
        puts[#puts + 1] = records
        puts[#puts + 1] = name
        puts[#puts + 1] = new .. ':' .. value
        after[id] = new
      end
      answer[#answer + 1] = new
      answer[#answer + 1] = sum
      op = op + 1
    end
    for position, id in pairs(requires) do
      answer[position] = after[id] or answer[position]
    end
    return answer
  end

  local answer = judge()
  if answer[1] == 'data' then
    if not answers then return answer end
    puts, deletes, raised = {}, {}, {} -- the refusal is written, and nothing else
  end

  -- What the answer adds to the answers: fields and values, and the fields that go for it. Answers
  -- lie in the order in which they were given, so the first ones are due first, and behind one of
  -- the mark all are. More go than come: what is due is gone after as many commits with a key.
  local remembered, gone
  if answers then
    local clock = redis.call('TIME')
    local time = clock[1] * 1000 + math.floor(clock[2] / 1000)
    local first, next, latest = string.match(window, '^(%d+) (%d+) (%d+)$')
    first, next = tonumber(first), tonumber(next)
    gone = {}
    local oldest = redis.call('HMGET', answers, '#' .. text(first), '#' .. text(first + 1), '#' .. text(first + 2))
    for _, place in ipairs(oldest) do
      local till, of, whose = string.match(place or '', '^(%d+) (%d+) (.+)$')
      if not till or of == number or tonumber(till) > time then break end
      gone[#gone + 1] = '#' .. text(first)
      gone[#gone + 1] = whose
      first = first + 1
    end
    local till = time + tonumber(lasting)
    remembered = {
      key, fingerprint .. ' ' .. table.concat(answer, ' '),
      '#' .. text(next), text(till) .. ' ' .. number .. ' ' .. key,
      '*', text(first) .. ' ' .. text(next + 1) .. ' ' .. text(math.max(till, tonumber(latest))),
    }
  end

  for i = 1, #deletes, 2 do
    redis.call('HDEL', deletes[i], deletes[i + 1])
    wrote = true
  end
  if gone and #gone > 0 then
    redis.call('HDEL', answers, unpack(gone))
    wrote = true
  end
  for i = 1, #puts, 3 do
    redis.call('HSET', puts[i], puts[i + 1], puts[i + 2])
    wrote = true
  end
  for i, base in pairs(raised) do
    if base > tonumber(bases[i] or '0') then redis.call('HSET', KEYS[k + 2 * i - 1], 'base', text(base)) end
  end
  if remembered then
    redis.call('HSET', answers, unpack(remembered))
    wrote = true
    redis.call('PERSIST', answers) -- it may expire with the answers of earlier marks: not while this one is the mark
  end
  return answer
end
