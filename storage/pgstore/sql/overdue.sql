-- Returns nothing; deletes the oldest of a resource's idempotency records that are overdue, but for those whose token is the mark. $1 resources whose marks are locked, $2 how many of each at most, side by side, $3 the retention in milliseconds.
-- Records are deleted in the order of their places, here and in sweep.sql, so that two who delete never wait for each other.
delete from fencegate.answers
where ctid = any (array(
	select a.ctid
	from unnest($1::text[], $2::integer[]) as i (resource, most)
	join fencegate.marks as m on m.resource = i.resource
	cross join lateral (
		select a.ctid from fencegate.answers as a
		where a.resource = i.resource and a.created_at < clock_timestamp() - $3::bigint * interval '1 millisecond'
			and (a.number <> m.number or m.retired or m.incarnation <> (select fencegate.incarnation()))
		order by a.created_at
		limit i.most
	) as a
))
