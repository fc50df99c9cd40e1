-- Returns (table or '', role or '', what is wrong) of every known way past the guards, by table.
with recursive guarded as ( -- guarded tables, and their partitions
	select c.oid as root, r.oid, format('%I.%I', n.nspname, k.relname) as name, k.relowner, k.relacl, k.relkind,
		obj_description(p.oid, 'pg_proc')::jsonb as about
	from pg_catalog.pg_trigger as t
	join pg_catalog.pg_proc as p on p.oid = t.tgfoid and p.pronamespace = 'fencegate'::regnamespace
	join pg_catalog.pg_class as c on c.oid = t.tgrelid and not c.relispartition
	cross join lateral (select c.oid union select relid from pg_catalog.pg_partition_tree(c.oid)) as r (oid)
	join pg_catalog.pg_class as k on k.oid = r.oid
	join pg_catalog.pg_namespace as n on n.oid = k.relnamespace
	where t.tgname = 'fencegate_guard'
), member (oid, roleid) as ( -- every role that may enter, by membership, and all roles that it is a member of
	select r.oid, r.oid from pg_catalog.pg_roles as r
	union
	select m.oid, a.roleid from member as m join pg_catalog.pg_auth_members as a on a.member = m.roleid
), app as (
	select r.oid, r.rolname, r.rolsuper, r.rolcreaterole, r.rolreplication
	from pg_catalog.pg_roles as r
	where r.rolcanlogin and exists (select from member as m where m.oid = r.oid and m.roleid = 'fencegate_app'::regrole)
), wanted (name, event, kind) as (
	values ('fencegate_guard', 'rows', 29), ('fencegate_guard_truncate', 'TRUNCATE', 34)
), finding (relation, role, what) as (
	select g.name, '', case
			when t.oid is null then format('the trigger for %s is missing: guard the table again', w.event)
			when not made.good then format('the trigger for %s is another one: guard the table again', w.event)
			when t.tgenabled = 'D' then format('the trigger for %s is disabled: guard the table again', w.event)
			else format('the trigger for %s is not ENABLE ALWAYS: a replica passes it; guard the table again', w.event)
		end
	from guarded as g cross join wanted as w
	left join pg_catalog.pg_trigger as t on t.tgrelid = g.oid and t.tgname = w.name
	left join pg_catalog.pg_proc as p on p.oid = t.tgfoid
	cross join lateral (select p.pronamespace = 'fencegate'::regnamespace and (p.proname = 'guard_truncate') = (w.event = 'TRUNCATE')
		and t.tgtype = w.kind and t.tgqual is null and t.tgattr = '' as good) as made
	where t.oid is null or t.tgenabled <> 'A' or not made.good
	union all
	select g.name, case when a.grantee = 0 then 'public' else pg_get_userbyid(a.grantee) end,
		case a.privilege_type
			when 'TRIGGER' then 'has TRIGGER, and can put another trigger in the guard''s place'
			else 'has TRUNCATE, which the guard refuses'
		end
	from guarded as g cross join lateral aclexplode(g.relacl) as a
	where a.privilege_type in ('TRUNCATE', 'TRIGGER') and a.grantee <> g.relowner and not (g.about ->> 'shadow')::boolean
	union all
	select g.name, '', case
			when a.atttypid is null then format('the column %s is gone', quote_ident(g.about ->> 'column'))
			when g.oid <> (g.about ->> 'table')::oid then 'its guard was made for another table, or before a dump that it was restored from'
			else format('the type of the column %s changed', quote_ident(g.about ->> 'column'))
		end || case when (g.about ->> 'shadow')::boolean then ': it would refuse every write; guard the table again' else ': every write is refused; guard the table again' end
	from guarded as g left join pg_catalog.pg_attribute as a on a.attrelid = g.oid and a.attname = g.about ->> 'column' and not a.attisdropped
	where g.oid = g.root and (a.atttypid is null or a.atttypid <> (g.about ->> 'type')::oid or g.oid <> (g.about ->> 'table')::oid)
	union all
	select g.name, '', 'it is in shadow mode: nothing is refused'
	from guarded as g where g.oid = g.root and (g.about ->> 'shadow')::boolean
	union all
	select g.name, '', format('%s inherits from it, and its rows are not guarded', i.inhrelid::regclass)
	from guarded as g join pg_catalog.pg_inherits as i on i.inhparent = g.oid where g.relkind = 'r'
	union all
	select g.name, '', 'it is a foreign table: another server does not check'
	from guarded as g where g.relkind = 'f'
	union all
	select g.name, '', 'a subscription writes to it, which the guard refuses'
	from guarded as g where exists (select from pg_catalog.pg_subscription_rel as s where s.srrelid = g.oid)
	union all
	select g.name, app.rolname, 'may enter, and is or can become the owner'
	from guarded as g join app on exists (select from member as m where m.oid = app.oid and m.roleid = g.relowner)
	union all
	select '', app.rolname, x.what
	from app
	cross join pg_catalog.pg_namespace as n
	cross join lateral (values
		(app.rolsuper, 'may enter, and is a superuser'),
		(app.rolreplication, 'may enter, and has REPLICATION: it can copy the server''s files, marks included'),
		(app.rolcreaterole and current_setting('server_version_num')::integer < 160000, 'may enter, and has CREATEROLE: it can become the owner of tables'),
		(exists (select from member as m where m.oid = app.oid and m.roleid = n.nspowner), 'may enter, and is or can become the owner of the schema fencegate'),
		(exists (select from member as m where m.oid = app.oid and m.roleid = 'fencegate_gateway'::regrole), 'may enter, and is a member of fencegate_gateway: it can raise'),
		(not app.rolsuper and has_any_column_privilege(app.oid, 'fencegate.marks', 'SELECT')
			and not exists (select from member as m where m.oid = app.oid and m.roleid in ('fencegate_gateway'::regrole, n.nspowner)),
			'may enter, and may read marks, with the grant ids of everybody'),
		(not app.rolsuper and has_table_privilege(app.oid, 'fencegate.marks', 'INSERT, UPDATE, DELETE')
			and not exists (select from member as m where m.oid = app.oid and m.roleid = n.nspowner),
			'may enter, and may write marks')
	) as x (holds, what)
	where n.nspname = 'fencegate' and x.holds
	union all
	select '', app.rolname, format('may enter, and is a member of %s: it can do all that the server''s own user can', f.rolname)
	from app
	join member as m on m.oid = app.oid
	join pg_catalog.pg_roles as f on f.oid = m.roleid
	where f.rolname in ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')
)
select relation, role, what from finding order by relation, role, what
