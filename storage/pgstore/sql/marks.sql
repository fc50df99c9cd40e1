-- Returns (resource, number, grant id, retired) for each resource, in any order; {floor, retired} where there is no mark. $1 resources.
select r.resource, coalesce(m.number, s.floor), coalesce(m.grant_id, ''), m.number is null or m.retired or m.incarnation <> i.incarnation
from unnest($1::text[]) as r (resource)
cross join fencegate.meta as s
cross join (select fencegate.incarnation() as incarnation) as i
left join fencegate.marks as m on m.resource = r.resource
