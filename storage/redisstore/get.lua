-- Returns {'ok', record of each key, empty where there is none}; KEYS: records; ARGV: the keys, at least one.

if not primary() then return replica end
local answer = {'ok'}
for i = 1, #ARGV do
  answer[i + 1] = redis.call('HGET', KEYS[1], ARGV[i]) or ''
end
return answer
