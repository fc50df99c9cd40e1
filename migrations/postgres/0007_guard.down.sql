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
do $$
declare
	what text;
begin
	drop function fencegate.unprotect(regclass);
	drop function fencegate.protect(regclass, text, text, boolean);
	drop function fencegate.guard_drop();
	drop function fencegate.guard_make(regclass, text, text, boolean);
	drop function fencegate.guard_tables(regclass);
	drop function fencegate.guard_body(oid, text, text, oid, boolean, boolean);
	drop function fencegate.guard_refuse(oid, text, text, boolean, boolean);
	drop function fencegate.enter_all(text[], text[]);
	drop function fencegate.enter(text, text);
	drop function fencegate.refuse(text, text, oid);
	drop function fencegate.refusal(text, text);
	drop view fencegate.shadow;
	drop table fencegate.shadow_refusals;
exception when dependent_objects_still_exist then -- views and functions of others
	get stacked diagnostics what = pg_exception_detail;
	raise exception 'fencegate: %: %', sqlerrm, what
		using errcode = 'dependent_objects_still_exist', hint = 'Drop them first, or change them.';
end
$$;
alter table fencegate.meta drop column max_idle_ms;
update fencegate.meta set version = 6;
