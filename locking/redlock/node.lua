-- Returns {'ok' | 'quarantine', run id, marker}; KEYS: marker; ARGV: longest ttl ms.

local state = fit() and 'ok' or 'quarantine'
return {state, string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or '', redis.call('GET', KEYS[1]) or ''}
