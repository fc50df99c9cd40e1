-- Returns {'ok', the keys that begin with the prefix, in no order}; KEYS: records; ARGV: prefix.
-- They are not sorted here: Lua compares strings by the server's locale, not as bytes.

if not primary() then return replica end
local answer = {'ok'}
local prefix = ARGV[1]
for _, key in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(key, 1, #prefix) == prefix then answer[#answer + 1] = key end
end
return answer
