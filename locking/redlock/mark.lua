-- Returns {'marked'}, or {'changed'} if the server was restarted or emptied meanwhile; KEYS: marker, nonce; ARGV: terms, run id, nonce, marker.

local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
if run ~= ARGV[2] or redis.call('GET', KEYS[2]) ~= ARGV[3] then return {'changed'} end
redis.call('SET', KEYS[1], ARGV[4])
redis.call('DEL', KEYS[2])
return {'marked'}
