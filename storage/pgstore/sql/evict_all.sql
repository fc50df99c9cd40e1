-- Returns (resource, number, was the mark retired now) of up to $2 marks that were not retired, in the order of their resources, after $1.
-- A mark that somebody has locked is left alone, so that nobody waits while this has others locked.
with page as materialized (
	select resource, number from fencegate.marks
	where resource > $1::text and not retired
	order by resource
	limit $2::integer
), free as materialized (
	select m.resource
	from page join fencegate.marks as m on m.resource = page.resource
	where not m.retired
	order by m.resource
	for no key update of m skip locked
)
select p.resource, p.number, case when f.resource is null then false else fencegate.evict(p.resource, p.number, '') end
from page as p left join free as f on f.resource = p.resource
order by p.resource
