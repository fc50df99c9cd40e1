-- Returns (new version, sum) of a counter that was there; no row, and nothing is written, where the data says no, else as put_one.sql. $1 resource, $2 number, $3 grant id, $4 key, $5 delta, $6 minimum.
-- A counter is an integer in decimal text, as storage.ParseCounter reads it.
update fencegate.records as r
set value = convert_to((encode(r.value, 'escape')::bigint + $5::bigint)::text, 'UTF8'), version = r.version + 1
where r.resource = (
		select m.resource from fencegate.marks as m
		where m.resource = $1::text and m.number = $2::bigint and m.grant_id = $3::text and not m.retired
			and m.incarnation = (select fencegate.incarnation())
			and current_setting('transaction_isolation') = 'read committed'
			and case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then set_config('synchronous_commit', 'on', true) else '' end is not null
			and case when current_setting('client_min_messages') in ('error', 'fatal', 'panic') then set_config('client_min_messages', 'warning', true) else '' end is not null
		for no key update of m skip locked)
	and r.key = $4::text
	and case when octet_length(r.value) <= 17 and encode(r.value, 'escape') ~ '^(0|-?[1-9][0-9]{0,15})$'
		then encode(r.value, 'escape')::bigint between -9007199254740991 and 9007199254740991
			and encode(r.value, 'escape')::bigint + $5::bigint between greatest($6::bigint, -9007199254740991) and 9007199254740991
		else false end
returning r.version, encode(r.value, 'escape')::bigint
