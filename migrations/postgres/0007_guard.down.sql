-- destroys: the guards of your tables
do $$
declare
	f regprocedure;
begin
	for f in select oid from pg_catalog.pg_proc
			where pronamespace = 'fencegate'::regnamespace and proname ~ '^guard_([0-9a-f]{32}|truncate)$' loop
		execute format('drop function %s cascade', f); -- with the triggers that use it
	end loop;
end
$$;
drop function fencegate.unprotect(regclass);
drop function fencegate.protect(regclass, text, text, boolean);
drop function fencegate.guard_drop();
drop function fencegate.guard_make(regclass, text, text, boolean);
drop function fencegate.guard_tables(regclass);
drop function fencegate.guard_body(text, text, boolean, boolean);
drop function fencegate.guard_refuse(oid, text, text, boolean);
drop function fencegate.enter_all(text[], text[]);
drop function fencegate.enter(text, text);
drop function fencegate.refuse(text, text, oid);
drop function fencegate.refusal(text, text);
drop view fencegate.shadow;
drop table fencegate.shadow_refusals;
alter table fencegate.meta drop column max_idle_ms;
update fencegate.meta set version = 6;
