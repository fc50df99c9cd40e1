-- Returns the definition of a function of ours as this database has it. $1 its name, without the schema.
select pg_get_functiondef(p.oid)
from pg_catalog.pg_proc as p
where p.pronamespace = 'fencegate'::regnamespace and p.proname = $1::text
order by p.pronargs
limit 1
