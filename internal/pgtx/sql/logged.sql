-- Returns the settings, separated by commas, because of which the parameters of this session's statements get into the server's log; empty if none does.
select coalesce(string_agg(name, ', ' order by name), '')
from pg_settings
where name = 'log_parameter_max_length_on_error' and setting <> '0'
	or coalesce(current_setting('log_parameter_max_length', true), '') <> '0' and (
		name = 'log_statement' and setting = 'all'
		or name = 'log_min_duration_statement' and setting <> '-1'
		or name = 'log_min_duration_sample' and setting <> '-1' and current_setting('log_statement_sample_rate')::float > 0
		or name = 'log_transaction_sample_rate' and setting::float > 0)
