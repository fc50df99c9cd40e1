-- Returns nothing; raises the bases of resources whose marks are locked. $1 resources, $2 bases, side by side.
update fencegate.marks as m set base = i.base
from unnest($1::text[], $2::bigint[]) as i (resource, base)
where m.resource = i.resource and m.base < i.base
