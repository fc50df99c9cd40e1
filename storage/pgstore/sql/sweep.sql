-- Returns (looked at, deleted, resource, key): one step through the idempotency records, from after the record ($1 resource, $2 key) to the one that is returned, $3 records long; null where there is none. It deletes those that are overdue and whose token is not the mark. $4 the retention in milliseconds.
-- No mark is locked: a token that is no longer the mark never is again.
with page as materialized (
	select resource, key, number, created_at, ctid as place from fencegate.answers
	where (resource, key) > ($1::text, $2::text)
	order by resource, key
	limit $3::integer
), gone as (
	delete from fencegate.answers
	where ctid = any (array(
		select p.place from page as p
		left join fencegate.marks as m on m.resource = p.resource
		where p.created_at < clock_timestamp() - $4::bigint * interval '1 millisecond'
			and (m.number is distinct from p.number or m.retired or m.incarnation <> (select fencegate.incarnation()))
	))
	returning 1
)
select (select count(*) from page), (select count(*) from gone), last.resource, last.key
from (select 1) as one
left join (select resource, key from page order by resource desc, key desc limit 1) as last on true
