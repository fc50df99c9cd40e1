-- Returns (resource, base) of those tokens that are the mark, and locks their rows until the transaction ends. $1 resources, $2 numbers, $3 grant ids.
-- A row that does not match is neither locked nor waited for. Where this waits, all conditions are judged again on the row that the wait left.
select m.resource, m.base
from unnest($1::text[], $2::bigint[], $3::text[]) as t (resource, number, grant_id)
join fencegate.marks as m on m.resource = t.resource
where m.number = t.number
	and m.grant_id = t.grant_id
	and not m.retired
	and m.incarnation = (select fencegate.incarnation())
order by m.resource
for no key update of m
