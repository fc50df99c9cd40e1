-- Returns one row without meaning. $1 is the longest wait for one lock, like '5000ms'.
select
	set_config('lock_timeout', $1::text, true),
	-- off loses an acknowledged number when one server process is killed, local when a standby takes over
	case when current_setting('synchronous_commit') in ('off', 'local') then set_config('synchronous_commit', 'on', true) end,
	-- the warning that a COMMIT did not reach its standby must come through
	case when current_setting('client_min_messages') in ('error', 'fatal', 'panic') then set_config('client_min_messages', 'warning', true) end
