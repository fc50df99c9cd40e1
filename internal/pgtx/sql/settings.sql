-- Returns one row without meaning. $1 is the longest idle time in the transaction, $2 the longest wait for one lock, both like '5000ms'; an empty one is left as it is.
select
	case when $1::text <> '' then set_config('idle_in_transaction_session_timeout', $1::text, true) end,
	case when $2::text <> '' then set_config('lock_timeout', $2::text, true) end,
	-- off loses acknowledged writes when one server process is killed, local when a standby takes over, remote_write when that standby's machine crashed too
	case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then set_config('synchronous_commit', 'on', true) end,
	-- the warning that a COMMIT did not reach its standby must come through
	case when current_setting('client_min_messages') in ('error', 'fatal', 'panic') then set_config('client_min_messages', 'warning', true) end
