-- connections(parent's application_name): how many clients are connected to this database, and what some of them do
select count(*), coalesce(string_agg(format('%s %s, %s for %s: %s', a.pid, a.application_name, a.state,
		date_trunc('milliseconds', clock_timestamp() - a.state_change), left(a.query, 80)), '; ') filter (where a.nth <= 3), '')
	from (
		select *, row_number() over (order by pid) as nth from pg_stat_activity
			where datname = current_database() and backend_type = 'client backend'
				and application_name <> $1 and application_name not like 'gateway-%'
	) as a
