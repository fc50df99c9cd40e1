-- Returns (number, grant id, retired, value, version): the mark, and the record where the mark is the token; value is null where there is none. $1 resource, $2 number, $3 grant id, $4 key.
select coalesce(m.number, s.floor), coalesce(m.grant_id, ''), m.number is null or m.retired or m.incarnation <> i.incarnation,
	r.value, coalesce(r.version, 0)
from fencegate.meta as s
cross join (select fencegate.incarnation() as incarnation) as i
left join fencegate.marks as m on m.resource = $1::text
left join fencegate.records as r on r.resource = m.resource and r.key = $4::text
	and m.number = $2::bigint and m.grant_id = $3::text and not m.retired
