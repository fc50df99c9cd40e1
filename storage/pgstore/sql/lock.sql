-- Returns (resource, number, grant id, retired, base) of marks and locks their rows until the transaction ends, one after the other; a row twice where its tokens are two. $1 resources, $2 numbers, $3 grant ids, $4 whether to lock it even if it is not the token, side by side.
-- One of another incarnation is retired. A row that does not match is neither locked nor waited for. Where this waits, all conditions are judged again on the row that the wait left.
select m.resource, m.number, m.grant_id, m.retired, m.base
from unnest($1::text[], $2::bigint[], $3::text[], $4::boolean[]) as t (resource, number, grant_id, anyway)
cross join lateral (
	select m.resource, m.number, m.grant_id, m.retired or m.incarnation <> (select fencegate.incarnation()) as retired, m.base
	from fencegate.marks as m
	where m.resource = t.resource
		and (t.anyway or m.number = t.number and m.grant_id = t.grant_id and not m.retired and m.incarnation = (select fencegate.incarnation()))
	for no key update of m
) as m
