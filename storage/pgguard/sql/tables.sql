-- Returns (table, prefix, column, shadow) of every table that is nobody else's, system's or partition, by name; nulls where it is not guarded.
select format('%I.%I', n.nspname, c.relname), g.about ->> 'prefix', g.about ->> 'column', (g.about ->> 'shadow')::boolean
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
left join lateral (
	select obj_description(p.oid, 'pg_proc')::jsonb as about
	from pg_catalog.pg_trigger as t
	join pg_catalog.pg_proc as p on p.oid = t.tgfoid
	where t.tgrelid = c.oid and t.tgname = 'fencegate_guard' and p.pronamespace = 'fencegate'::regnamespace) as g on true
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't'
	and n.nspname not in ('fencegate', 'fencegate_migrations', 'information_schema') and n.nspname !~ '^pg_'
	and not exists (select from pg_catalog.pg_depend as d where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.deptype = 'e')
order by n.nspname, c.relname
