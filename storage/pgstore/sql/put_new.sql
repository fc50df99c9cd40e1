-- Returns the new version of a record, also of one that was not there; else as put_one.sql. $1 resource, $2 number, $3 grant id, $4 key, $5 value.
-- It costs more than put_one.sql where the record is there: ON CONFLICT locks it before it changes it.
insert into fencegate.records as r (resource, key, value, version)
select m.resource, $4::text, $5::bytea, m.base + 1
from fencegate.marks as m
where m.resource = $1::text and m.number = $2::bigint and m.grant_id = $3::text and not m.retired
	and m.incarnation = (select fencegate.incarnation())
	and current_setting('transaction_isolation') = 'read committed'
	and case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then set_config('synchronous_commit', 'on', true) else '' end is not null
	and case when current_setting('client_min_messages') in ('error', 'fatal', 'panic') then set_config('client_min_messages', 'warning', true) else '' end is not null
for no key update of m skip locked
on conflict (resource, key) do update set value = excluded.value, version = r.version + 1
returning r.version
