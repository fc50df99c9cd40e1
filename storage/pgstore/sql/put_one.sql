-- Returns the new version of a record that was there; no row, and nothing is written, unless the token is the mark and nobody has the mark locked. $1 resource, $2 number, $3 grant id, $4 key, $5 value.
-- It is a transaction of its own. At READ COMMITTED the mark and the record are judged in their newest version, whatever the snapshot has: where either changed since, the conditions are judged again.
-- The last two conditions are always true, and set what a fenced transaction needs, until its end.
update fencegate.records as r
set value = $5::bytea, version = r.version + 1
where r.resource = (
		select m.resource from fencegate.marks as m
		where m.resource = $1::text and m.number = $2::bigint and m.grant_id = $3::text and not m.retired
			and m.incarnation = (select fencegate.incarnation())
			and current_setting('transaction_isolation') = 'read committed'
			and case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then set_config('synchronous_commit', 'on', true) else '' end is not null
			and case when current_setting('client_min_messages') in ('error', 'fatal', 'panic') then set_config('client_min_messages', 'warning', true) else '' end is not null
		for no key update of m skip locked)
	and r.key = $4::text
returning r.version
