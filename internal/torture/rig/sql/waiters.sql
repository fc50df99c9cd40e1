-- waiters(prefix, how long a place is alive): how many places in line somebody keeps, and some of them
select count(*), coalesce(string_agg(format('%s: kept %s ago', w.resource, clock_timestamp() - w.seen), '; ') filter (where w.nth <= 3), '')
	from (
		select *, row_number() over (order by resource, place) as nth from fencegate.lock_waiters
			where starts_with(resource, $1) and abs(extract(epoch from clock_timestamp() - seen)) <= extract(epoch from $2::interval)
	) as w
