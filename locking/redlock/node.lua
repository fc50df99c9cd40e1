-- Returns {'ok' | 'quarantine', run id, marker}; KEYS: marker; ARGV: terms.

local out = unfit()
if out then return out end
return {'ok', string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or '', redis.call('GET', KEYS[1])}
