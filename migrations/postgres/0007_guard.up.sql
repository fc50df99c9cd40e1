-- Guards in front of tables of your own: enter, protect, unprotect, and what they are made of.

alter table fencegate.meta add column max_idle_ms integer not null default 5000 check (max_idle_ms between 1 and 86400000);
comment on column fencegate.meta.max_idle_ms is 'how long a transaction that called enter may sit idle, in milliseconds; the owner of the schema may change it';

-- What guards in shadow mode would have refused: per transaction one row for each table and
-- reason. Rows are only ever inserted, so that nobody waits for anybody.
create table fencegate.shadow_refusals (
	at        timestamptz not null default clock_timestamp(),
	relation  text        not null,
	operation text        not null,
	role      text        not null default session_user,
	resource  text,
	code      text        not null,
	message   text        not null
);
comment on table fencegate.shadow_refusals is 'what guards in shadow mode would have refused; delete from it what has been read';

create view fencegate.shadow as
	select relation, code, operation, role, count(*) as transactions, min(at) as first, max(at) as last, max(message) as example
	from fencegate.shadow_refusals
	group by relation, code, operation, role;

-- The errors. Class ZF is of this schema alone.
--   ZF101 superseded, ZF102 retired, ZF103 duplicate, ZF104 ungranted, ZF105 grant-required: a
--         token is not the mark, see the rule
--   ZF201 a row is written, and the transaction has no token of its resource
--   ZF202 what should be a resource and a token has not their shape
--   ZF203 a row has no resource: its column is null, or fits no name
--   ZF204 a guarded table is truncated
--   ZF205 the column or the table is no longer what was guarded
-- A message never shows a grant id.

-- refusal says why a token is not the mark, as this statement sees it; code is null where it is.
-- At REPEATABLE READ and SERIALIZABLE the snapshot may be older than the token: 40001.
create function fencegate.refusal(p_resource text, p_token text, out code text, out message text)
	language plpgsql volatile
	set search_path = pg_catalog, pg_temp
as $$
declare
	n      bigint;
	g      text := split_part(p_token, '.', 2);
	m      record;
	reason text;
begin
	if p_resource is null or p_token is null
			or p_resource collate "C" !~ '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$'
			or p_token collate "C" !~ '^[1-9][0-9]{0,15}(\.[A-Z2-7]{26})?$'
			or split_part(p_token, '.', 1)::bigint > 9007199254740991 then
		code := 'ZF202';
		-- Nothing of them is shown: one may stand in the other's place.
		message := 'fencegate: want the name of a resource and its token, like coupon:42 and 34.<grant id>';
		return;
	end if;
	n := split_part(p_token, '.', 1)::bigint;
	select coalesce(mark.number, s.floor) as number, mark.grant_id,
			mark.number is null or mark.retired or mark.incarnation <> fencegate.incarnation() as retired
		into strict m
		from fencegate.meta as s left join fencegate.marks as mark on mark.resource = p_resource;
	if g = '' then
		code := 'ZF105'; reason := 'grant-required';
	elsif n < m.number then
		code := 'ZF101'; reason := 'superseded';
	elsif n > m.number and current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
		code := '40001';
		message := format('fencegate: the snapshot of this transaction is older than token %s of %s, or it was never granted', n, p_resource);
		return;
	elsif n > m.number then
		code := 'ZF104'; reason := 'ungranted';
	elsif m.retired then
		code := 'ZF102'; reason := 'retired';
	elsif g <> m.grant_id then
		code := 'ZF103'; reason := 'duplicate';
	end if;
	message := format('fencegate: token %s of %s refused: %s (the mark is %s)', n, p_resource, reason, m.number);
end
$$;

-- refuse ends the statement with a code of the list above.
create function fencegate.refuse(p_code text, p_message text, p_table oid) returns void
	language plpgsql volatile
	set search_path = pg_catalog, pg_temp
as $$
declare
	hint text := case
		when p_code = '40001' then 'Roll back and try the transaction again.'
		when p_code = 'ZF201' then 'Begin the transaction with fencegate.enter(resource, token).'
		when p_code = 'ZF202' then 'Pass them as two parameters, the resource first.'
		when p_code = 'ZF203' then 'Write a value that makes a name of 1 to 200 characters A-Z a-z 0-9 . _ : @ -, the first a letter or a digit.'
		when p_code = 'ZF204' then 'DELETE with a token, or have the owner unprotect the table.'
		when p_code = 'ZF205' then 'Have the owner call fencegate.protect again.'
		else 'Roll back. Only a new grant of the lock helps.'
	end;
	c pg_class;
begin
	if p_table is null then
		raise exception using errcode = p_code, message = p_message, hint = hint;
	end if;
	select * into c from pg_class where oid = p_table;
	raise exception using errcode = p_code, message = p_message, hint = hint,
		schema = c.relnamespace::regnamespace::text, table = c.relname;
end
$$;

-- enter lets the transaction go on only if the token is the mark, and keeps every raise of the
-- resource out until the transaction ends. It is to be the first statement: what was
-- read before it may be old. Returns the number (drivers stumble over void). A plan made for one
-- token would have it as a constant, which auto_explain can log.
create function fencegate.enter(resource text, token text) returns bigint
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
	set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
	number bigint;
	why    record;
begin
	for attempt in 1..10 loop
		-- One statement, for each costs as much again. A row that does not match is neither
		-- locked nor waited for, and where this waits, all conditions are judged again on the row that the
		-- wait left. It keeps the token for the transaction (where the row is lost in the wait, the
		-- error below takes that back); no name of a resource has a comma or an equals sign. The
		-- server ends a transaction that sits idle: a client that stops in the middle must not keep
		-- raises out for ever. synchronous_commit off loses acknowledged writes when one server process
		-- is killed, local when a standby takes over, remote_write when that standby's machine crashed too.
		select case when set_config('fencegate.tokens', ',' || enter.resource || '=' || enter.token
						|| coalesce(nullif(current_setting('fencegate.tokens', true), ''), ','), true) <> ''
				and case
					when current_setting('idle_in_transaction_session_timeout') = '0'
							or current_setting('idle_in_transaction_session_timeout')::interval > s.max_idle_ms * interval '1 millisecond'
						then set_config('idle_in_transaction_session_timeout', s.max_idle_ms || 'ms', true) <> ''
					else true
				end
				and case
					when current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then set_config('synchronous_commit', 'on', true) <> ''
					else true
				end
				then m.number end
			into number
			from fencegate.marks as m join fencegate.meta as s on s.one -- by its key, for the planner
			where m.resource = enter.resource and m.number || '.' || m.grant_id = enter.token
				and m.grant_id <> '' and not m.retired
				and m.incarnation = to_hex((extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint)
					|| '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
			for no key update of m;
		if found then
			return number;
		end if;
		select * into why from fencegate.refusal(enter.resource, enter.token);
		if why.code is not null then
			perform fencegate.refuse(why.code, why.message, null);
		end if; -- else it was raised in between: look again
	end loop;
	perform fencegate.refuse('40001', format('fencegate: the mark of %s changed while it was looked at', resource), null);
end
$$;

-- enter_all enters several resources, side by side with their tokens, in the one order in which
-- everybody takes marks. Returns how many.
create function fencegate.enter_all(resources text[], tokens text[]) returns integer
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	t record;
	n integer := 0;
begin
	if cardinality(resources) is distinct from cardinality(tokens) or coalesce(cardinality(resources), 0) = 0
			or cardinality(resources) <> (select count(distinct r) from unnest(resources) as r) then
		raise exception 'fencegate: want one or more resources, none twice, and as many tokens'
			using errcode = 'ZF202';
	end if;
	for t in select a.r, a.t from unnest(resources, tokens) as a (r, t) order by a.r collate "C" loop
		perform fencegate.enter(t.r, t.t);
		n := n + 1;
	end loop;
	return n;
end
$$;

-- guard_refuse is called by a guard that did not find the mark for a row. In shadow mode it notes
-- what it would have refused, and returns.
create function fencegate.guard_refuse(p_table oid, p_operation text, p_resource text, p_shadow boolean, p_changed boolean default false) returns void
	language plpgsql volatile
	set search_path = pg_catalog, pg_temp
as $$
declare
	kept text := coalesce(current_setting('fencegate.tokens', true), '');
	tok  text := split_part(split_part(kept, ',' || p_resource || '=', 2), ',', 1);
	name text := p_table::regclass::text;
	why  record;
	note text;
begin
	if p_changed then
		select 'ZF205' as code, format('fencegate: %s, or its column, is no longer what was guarded', name) as message into why;
	elsif p_operation = 'TRUNCATE' then
		select 'ZF204' as code, format('fencegate: %s is guarded and cannot be truncated', name) as message into why;
	elsif p_resource is null then
		select 'ZF203' as code, format('fencegate: a row of %s has no resource: its column is null', name) as message into why;
	elsif p_resource collate "C" !~ '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$' then
		select 'ZF203' as code, format('fencegate: a row of %s has no resource: %L fits no name', name, left(p_resource, 60)) as message into why;
	elsif tok = '' then
		select 'ZF201' as code, format('fencegate: %s on %s: this transaction has no token of %s', p_operation, name, p_resource) as message into why;
	else
		select * into why from fencegate.refusal(p_resource, tok);
		if why.code is null then -- it was not when the guard looked
			why.code := '40001';
			why.message := format('fencegate: the mark of %s changed while it was looked at', p_resource);
		end if;
	end if;
	if not p_shadow then
		perform fencegate.refuse(why.code, why.message, p_table);
	end if;
	note := ',' || p_table || '-' || why.code || ',';
	kept := coalesce(current_setting('fencegate.shadowed', true), '');
	if strpos(kept, note) > 0 then
		return;
	end if;
	perform set_config('fencegate.shadowed', kept || note, true);
	raise log 'fencegate would refuse (%): %', why.code, why.message;
	insert into fencegate.shadow_refusals (relation, operation, resource, code, message)
		values (name, p_operation, left(p_resource, 200), why.code, why.message);
end
$$;

-- guard_truncate is the trigger in front of TRUNCATE of a guarded table and each of its partitions.
create function fencegate.guard_truncate() returns trigger
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
begin
	perform fencegate.guard_refuse(tg_relid, tg_op, null, coalesce((
		select (obj_description(tr.tgfoid, 'pg_proc')::jsonb -> 'shadow')::boolean
			from pg_trigger as tr
			where tr.tgrelid = coalesce(pg_partition_root(tg_relid)::oid, tg_relid) and tr.tgname = 'fencegate_guard'), false));
	return null;
end
$$;

-- guard_body is the text of the guard of one table: a trigger function. Each table has its own,
-- because a field that is named in the text is found far quicker than one named in a variable.
create function fencegate.guard_body(p_table oid, p_prefix text, p_column text, p_type oid, p_enum boolean, p_shadow boolean) returns text
	language sql immutable
	set search_path = pg_catalog, pg_temp
as $body$
	-- Whoever owns the table can put a column of another type in the place of the guarded one, and
	-- the cast of that to text may be a function of theirs, which would run with the rights of this
	-- one. So the type comes first: pg_typeof casts nothing, and no later expression is looked
	-- at before it is reached. The catalog, as a statement sees it, can be older than the row; where
	-- nothing is to be refused it is asked before, because a field that is gone is an error.
	-- What enter did is done again for each row, and costs little where the transaction has the
	-- lock: whoever sets the variable by hand has no lock, and a raise could come in between. The
	-- row that stays with its resource comes first, with as few statements as there can be.
	-- The column's own collation must not decide which names are equal.
	select format(replace($$
begin
	if tg_relid <> %8$L::oid and pg_partition_root(tg_relid) is distinct from %8$L::oid then
		if not exists (select from pg_partition_ancestors(tg_relid) as a (part) where a.part = %8$L::oid) then
			perform fencegate.guard_refuse(tg_relid, tg_op, null, %4$L, true);
			return null;
		end if;
	end if;
	if %4$L then
		if not exists (select from pg_attribute where attrelid = tg_relid and attname = %9$L and atttypid = %7$L::oid) then
			perform fencegate.guard_refuse(tg_relid, tg_op, null, true, true);
			return null;
		end if;
	end if;
	if pg_typeof(%5$s) <> %7$L::oid or pg_typeof(%6$s) <> %7$L::oid then
		perform fencegate.guard_refuse(tg_relid, tg_op, null, %4$L, true);
		return null;
	end if;
	if %1$s = %2$s then
		$look$ %1$s %3$s;
		if found then
			return null;
		end if;
	end if;
	if tg_op <> 'INSERT' then
		$look$ %2$s %3$s;
		if not found then
			perform fencegate.guard_refuse(tg_relid, tg_op, %2$s, %4$L);
		end if;
	end if;
	if tg_op <> 'DELETE' then
		$look$ %1$s %3$s;
		if not found then
			perform fencegate.guard_refuse(tg_relid, tg_op, %1$s, %4$L);
		end if;
	end if;
	return null;
end
$$, '$look$', $$perform from fencegate.marks as m
			where m.number || '.' || m.grant_id = split_part(split_part(current_setting('fencegate.tokens', true), ',' || m.resource || '=', 2), ',', 1)
				and m.grant_id <> '' and not m.retired
				and m.incarnation = to_hex((extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint)
					|| '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
				and m.resource =$$),
		format(t.text, p_prefix, 'new', p_column),
		format(t.text, p_prefix, 'old', p_column),
		case when p_shadow then '' else 'for no key update' end,
		p_shadow,
		format('new.%I', p_column),
		format('old.%I', p_column),
		p_type, p_table, p_column)
	from (select case when p_enum then '%L || (enum_out(%s.%I)::text collate "C")' else '%L || (%s.%I::text collate "C")' end) as t (text)
$body$;

-- guard_tables are a table and, if it has any, its partitions.
create function fencegate.guard_tables(target regclass) returns setof regclass
	language sql stable
	set search_path = pg_catalog, pg_temp
as $$
	select target union select relid from pg_partition_tree(target)
$$;

-- guard_make makes the guard of a table, or makes the one that it has anew, and returns its name.
-- It works with the rights of the schema's owner, so it asks who logged in.
create function fencegate.guard_make(target regclass, prefix text, column_name text, shadow boolean) returns regproc
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	owner text;
	enum  boolean;
	kind  text;
	name  text;
	t     record;
begin
	select pg_get_userbyid(relowner) into strict owner from pg_class where oid = target;
	if not pg_has_role(session_user, owner, 'MEMBER') then
		raise exception 'fencegate: % is not the owner of %', session_user, target using errcode = '42501';
	end if;
	if prefix is null or (prefix || 'x') collate "C" !~ '^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$' then
		raise exception 'fencegate: the prefix must be up to 199 characters of A-Z a-z 0-9 . _ : @ -, the first a letter or a digit'
			using errcode = '22023';
	end if;
	select a.atttypid, a.atttypmod, ty.typtype, ty.typbasetype into t
		from pg_attribute as a join pg_type as ty on ty.oid = a.atttypid
		where a.attrelid = target and a.attname = column_name and a.attnum > 0 and not a.attisdropped;
	if not found then
		raise exception 'fencegate: % has no column %', target, quote_ident(coalesce(column_name, '')) using errcode = '42703';
	end if;
	enum := t.typtype = 'e';
	-- Only types whose text no setting of the session changes, and no function of somebody else makes.
	if not enum and not exists (
			with recursive base (type) as (
				select t.atttypid union all
				select typbasetype from base join pg_type on pg_type.oid = base.type where typtype = 'd')
			select from base where type = any (array['text', 'varchar', 'bpchar', 'int2', 'int4', 'int8', 'numeric', 'uuid', 'bool']::regtype[])) then
		raise exception 'fencegate: the column % of % is %: want a text, integer, numeric, uuid, boolean or enum',
				quote_ident(column_name), target, format_type(t.atttypid, t.atttypmod)
			using errcode = '42804', hint = 'Its text must be the same in every session. A generated column of type text may help.';
	end if;
	select p.proname into name
		from pg_trigger as tr join pg_proc as p on p.oid = tr.tgfoid
		where tr.tgrelid = target and tr.tgname = 'fencegate_guard' and p.pronamespace = 'fencegate'::regnamespace
			and p.proname ~ '^guard_[0-9a-f]{32}$'
			and not exists (select from pg_trigger as o where o.tgfoid = p.oid and o.tgrelid not in (select fencegate.guard_tables(target)));
	name := coalesce(name, 'guard_' || replace(gen_random_uuid()::text, '-', ''));
	execute format('create or replace function fencegate.%I() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as %L',
		name, fencegate.guard_body(target, prefix, column_name, t.atttypid, enum, shadow));
	execute format('comment on function fencegate.%I() is %L', name,
		jsonb_build_object('prefix', prefix, 'column', column_name, 'shadow', shadow, 'table', target::oid, 'type', t.atttypid));
	execute format('revoke all on function fencegate.%I() from public', name);
	execute format('grant execute on function fencegate.%I(), fencegate.guard_truncate() to %I', name, owner); -- to make triggers of them
	return format('fencegate.%I', name)::regproc;
end
$$;

-- guard_drop drops guards that no trigger uses.
create function fencegate.guard_drop() returns void
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	f regprocedure;
begin
	for f in select p.oid from pg_proc as p
			where p.pronamespace = 'fencegate'::regnamespace and p.proname ~ '^guard_[0-9a-f]{32}$'
				and not exists (select from pg_trigger as tr where tr.tgfoid = p.oid) loop
		execute format('drop function %s', f);
	end loop;
end
$$;

-- protect guards a table: a row is written only in a transaction that entered the row's resource,
-- whose name is the prefix and the text of the column. It can be called again, and then changes
-- what is to be changed; the table is locked against writes for a moment. It works with the rights
-- of its caller, who must own the table.
create function fencegate.protect(target regclass, prefix text, column_name text, shadow boolean default false) returns text
	language plpgsql volatile
	set search_path = pg_catalog, pg_temp
as $$
declare
	c     pg_class;
	guard regproc;
	part  regclass;
	trg   record;
	had   record;
begin
	if target is null or shadow is null then
		raise exception 'fencegate: want a table, a prefix and a column' using errcode = '22004';
	end if;
	select * into strict c from pg_class where oid = target;
	if c.relkind not in ('r', 'p') then
		raise exception 'fencegate: % is a %, and only tables can be guarded', target,
				case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table'
					when 'i' then 'index' when 'I' then 'index' when 'S' then 'sequence' when 'c' then 'composite type' else 'TOAST table' end
			using errcode = '42809',
				hint = case c.relkind when 'v' then 'Guard the tables behind it: what is written through a view is checked there.' else '' end;
	elsif c.relpersistence = 't' then
		raise exception 'fencegate: % is a temporary table: nobody else can write to it', target using errcode = '42809';
	elsif c.relnamespace::regnamespace::text in ('fencegate', 'fencegate_migrations', 'information_schema', 'pg_catalog') then
		raise exception 'fencegate: % is not a table of yours', target using errcode = '42809';
	elsif c.relispartition then
		raise exception 'fencegate: % is a partition of %', target, (select inhparent::regclass from pg_inherits where inhrelid = target)
			using errcode = '42809', hint = 'Guard the partitioned table: its partitions are guarded with it.';
	elsif not pg_has_role(c.relowner, 'USAGE') then
		raise exception 'fencegate: % is not the owner of %', current_user, target using errcode = '42501';
	end if;
	execute format('lock table %s in share row exclusive mode', target);
	if c.relkind = 'r' and exists (select from pg_inherits where inhparent = target) then
		raise exception 'fencegate: % has children by INHERITS, whose rows its triggers do not see', target
			using errcode = '0A000', hint = 'Make them partitions, or guard each of the tables without the inheritance.';
	end if;
	select f.oid::regclass into part from fencegate.guard_tables(target) as f (oid) join pg_class as k on k.oid = f.oid where k.relkind = 'f' limit 1;
	if found then
		raise exception 'fencegate: the partition % is a foreign table', part using errcode = '0A000';
	end if;

	guard := fencegate.guard_make(target, prefix, column_name, shadow);
	-- A trigger of that name that is not as it is made here is somebody's way past the guard.
	select tgfoid = guard and tgtype = 29 and tgqual is null and tgattr = '' as good into trg
		from pg_trigger where tgrelid = target and tgname = 'fencegate_guard';
	if found and not trg.good then
		execute format('drop trigger fencegate_guard on %s', target);
	end if;
	if not coalesce(trg.good, false) then
		-- AFTER: behind it no other trigger can move the row to another resource.
		execute format('create trigger fencegate_guard after insert or update or delete on %s for each row execute function %s()', target, guard);
	end if;
	for part in select t from fencegate.guard_tables(target) as t loop
		-- A partition gets the triggers for rows from its parent, those for TRUNCATE it does not.
		select tgfoid = 'fencegate.guard_truncate'::regproc and tgtype = 34 and tgqual is null as good into trg
			from pg_trigger where tgrelid = part and tgname = 'fencegate_guard_truncate';
		if found and not trg.good then
			execute format('drop trigger fencegate_guard_truncate on %s', part);
		end if;
		if not coalesce(trg.good, false) then
			execute format('create trigger fencegate_guard_truncate before truncate on %s for each statement execute function fencegate.guard_truncate()', part);
		end if;
		-- ALWAYS: in a session that is a replica, too.
		for trg in select tgname from pg_trigger where tgrelid = part and tgname in ('fencegate_guard', 'fencegate_guard_truncate') and tgenabled <> 'A' loop
			execute format('alter table only %s enable always trigger %I', part, trg.tgname);
		end loop;
		-- With TRIGGER somebody could put another trigger into the place of the guard.
		for had in select distinct a.grantee, case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as name
				from pg_class as k, aclexplode(k.relacl) as a
				where k.oid = part and not shadow and a.grantee <> k.relowner and a.privilege_type in ('TRUNCATE', 'TRIGGER') loop
			execute format('revoke truncate, trigger on %s from %s cascade', part, had.name);
			raise notice 'fencegate: TRUNCATE and TRIGGER on % were revoked from %', part, had.name;
		end loop;
	end loop;
	return format('%s is guarded by %s<%s>%s', target, prefix, column_name, case when shadow then ', in shadow mode' else '' end);
end
$$;

-- unprotect takes a guard away again; privileges that protect revoked stay revoked. Its caller
-- must own the table.
create function fencegate.unprotect(target regclass) returns text
	language plpgsql volatile
	set search_path = pg_catalog, pg_temp
as $$
declare
	part regclass;
	was  boolean := false;
begin
	if target is null then
		raise exception 'fencegate: want a table' using errcode = '22004';
	elsif not exists (select from pg_class where oid = target and relkind in ('r', 'p')) then
		raise exception 'fencegate: % is not a table', target using errcode = '42809';
	end if;
	for part in select tgrelid from pg_trigger
			where tgrelid in (select fencegate.guard_tables(target)) and tgname = 'fencegate_guard_truncate' loop
		execute format('drop trigger fencegate_guard_truncate on %s', part);
		was := true;
	end loop;
	if exists (select from pg_trigger where tgrelid = target and tgname = 'fencegate_guard') then
		execute format('drop trigger fencegate_guard on %s', target);
		was := true;
	end if;
	perform fencegate.guard_drop();
	return format(case when was then '%s is no longer guarded' else '%s was not guarded' end, target);
end
$$;

revoke all on all functions in schema fencegate from public;

-- Whoever owns tables and not this schema needs the right to guard them, see the docs.
grant execute on function fencegate.enter(text, text), fencegate.enter_all(text[], text[]) to fencegate_app;

update fencegate.meta set version = 7;
