-- Marks, records, and the functions that change marks.

-- A mark is written once per grant and locked once per commit. fillfactor leaves room in
-- the page, so that these updates stay in it (HOT) and do not touch the index. Never
-- UNLOGGED: a mark that a crash forgets lets stale writes in.
create table fencegate.marks (
	resource    text    collate "C" primary key check (octet_length(resource) between 1 and 200),
	number      bigint  not null check (number between 1 and 9007199254740991),
	grant_id    text    collate "C" not null check (octet_length(grant_id) in (0, 26)),
	retired     boolean not null default false,
	incarnation text    collate "C" not null,
	base        bigint  not null default 0 check (base >= 0),
	check (not retired or grant_id = '')
) with (fillfactor = 50);
comment on column fencegate.marks.grant_id is 'a secret; empty for a plain number and for a retired mark';
comment on column fencegate.marks.incarnation is 'the run of the server that the mark was made in; of another one, it counts as retired';
comment on column fencegate.marks.base is 'the highest version of a deleted record: new records begin above it';

create table fencegate.records (
	resource text   collate "C" not null check (octet_length(resource) between 1 and 200),
	key      text   collate "C" not null check (octet_length(key) between 1 and 200),
	value    bytea  not null,
	version  bigint not null check (version >= 1),
	primary key (resource, key)
) with (fillfactor = 70);

-- incarnation names this run of this server: its start, and the timeline it writes, which
-- a promotion changes without a restart. On a standby it is an error, so whatever asks for
-- it cannot read there. (pg_control_checkpoint() shows the old timeline for seconds after
-- a promotion, and a restored base backup keeps the system identifier.)
create function fencegate.incarnation() returns text
	language sql stable security definer
	set search_path = pg_catalog, pg_temp
as $$
	select to_hex((extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint)
		|| '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
$$;

-- need_read_committed ends the transaction unless every statement in it sees what was
-- committed before that statement: the functions below lock a row and then judge it.
create function fencegate.need_read_committed() returns void
	language plpgsql stable
	set search_path = pg_catalog, pg_temp
as $$
begin
	if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
		raise exception 'fencegate: this function needs isolation level READ COMMITTED'
			using errcode = 'ZF001';
	end if;
end
$$;

-- absent_floor is called where a mark was not found and is about to be made. Pruning
-- deletes marks and raises the floor; it takes this lock in its exclusive form (the two-key
-- form, which few applications use), so the floor that is returned stays true until the
-- caller's transaction ends.
create function fencegate.absent_floor() returns bigint
	language plpgsql volatile
	set search_path = pg_catalog, pg_temp
as $$
declare
	f bigint;
begin
	perform pg_advisory_xact_lock_shared(1179992659, 1);
	select floor into strict f from fencegate.meta; -- its snapshot is younger than the lock
	return f;
end
$$;

-- raise makes a token the mark. refusal is null where it is the mark now, else the
-- reason; highest is the number of the mark that it was judged by.
create function fencegate.raise(p_resource text, p_number bigint, p_grant text,
		out refusal text, out highest bigint)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
	here   text := fencegate.incarnation();
	m      fencegate.marks;
	locked boolean := false;
begin
	perform fencegate.need_read_committed();
	loop
		-- First without a lock: a mark never goes back, so a refusal stands, and a token
		-- that is the mark need not wait for its own transactions. What would change the
		-- mark waits for the transactions in flight and judges again what they left.
		if locked then
			select * into m from fencegate.marks where resource = p_resource for no key update;
		else
			select * into m from fencegate.marks where resource = p_resource;
		end if;
		if not found then
			highest := fencegate.absent_floor();
			if p_number <= highest then
				refusal := case when p_number < highest then 'superseded' else 'retired' end;
				return;
			end if;
			insert into fencegate.marks (resource, number, grant_id, incarnation)
				values (p_resource, p_number, p_grant, here)
				on conflict (resource) do nothing;
			if found then
				return;
			end if;
			locked := true; -- somebody else was first: judge that mark
			continue;
		end if;
		highest := m.number;
		if p_number <= m.number then
			refusal := case
				when p_number < m.number then 'superseded'
				when m.retired or m.incarnation <> here then 'retired'
				when p_grant <> m.grant_id then 'duplicate'
			end;
			return;
		end if;
		if locked then
			update fencegate.marks
				set number = p_number, grant_id = p_grant, retired = false, incarnation = here
				where resource = p_resource;
			return;
		end if;
		locked := true;
	end loop;
end
$$;

-- retire ends a token where it is the mark; returns whether it was. It waits for the
-- transactions of that token in flight. A mark of another incarnation is retired already.
create function fencegate.retire(p_resource text, p_number bigint, p_grant text) returns boolean
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
begin
	perform fencegate.need_read_committed();
	-- Where this waits, the conditions are judged again on the row that the wait left.
	update fencegate.marks
		set grant_id = '', retired = true
		where resource = p_resource and number = p_number and grant_id = p_grant and not retired
			and incarnation = fencegate.incarnation();
	return found;
end
$$;

-- evict ends a token without its holder; returns whether the mark changed. A lower mark
-- becomes {number, retired}, so that a raise under way is refused when it arrives; an
-- equal one is retired. An empty grant id equals every mark of its number.
create function fencegate.evict(p_resource text, p_number bigint, p_grant text) returns boolean
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	here text := fencegate.incarnation();
begin
	perform fencegate.need_read_committed();
	loop
		update fencegate.marks
			set number = p_number, grant_id = '', retired = true, incarnation = here
			where resource = p_resource
				and (number < p_number or number = p_number and not retired and p_grant in ('', grant_id));
		if found then
			return true;
		end if;
		if exists (select from fencegate.marks where resource = p_resource) then
			-- Not below and not equal; or made while the update looked, then look again.
			if exists (select from fencegate.marks where resource = p_resource
					and (number < p_number or number = p_number and not retired and p_grant in ('', grant_id))) then
				continue;
			end if;
			return false;
		end if;
		if p_number <= fencegate.absent_floor() then
			return false;
		end if;
		insert into fencegate.marks (resource, number, grant_id, retired, incarnation)
			values (p_resource, p_number, '', true, here)
			on conflict (resource) do nothing;
		if found then
			return true;
		end if;
	end loop;
end
$$;

-- mark_holder tells whose transaction has the row of a mark locked while others wait for it,
-- and ends that backend if p_end is its id. No row if nobody waits. id names one
-- transaction of one session. verdict is
--   seen      it is not the one of p_end
--   ended     it was, and its backend was told to end
--   refused   it was, and the owner of this function may not end it
--   waits     it waits for something itself (a lock, a standby): it is not what hangs
--   prepared  it has no backend: only COMMIT PREPARED or ROLLBACK PREPARED ends it
-- Those who wait queue up: the first of them has the lock of the tuple, and waits for the
-- transaction that is asked for. (pg_blocking_pids names those in the queue as well, and
-- xmax can be a multixact, whose number is that of another transaction.)
create function fencegate.mark_holder(p_resource text, p_end text)
	returns table (id text, name text, verdict text)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	h record;
begin
	-- One look at the locks, so that all of it was so at one moment.
	with l as materialized (select * from pg_locks)
	select held.pid, held.transactionid as xid, a.backend_start, p.gid,
			a.wait_event is not distinct from 'SyncRep'
				or exists (select from l as other where other.pid = held.pid and not other.granted) as waits
		into h
		from fencegate.marks as m
		join l as first on first.locktype = 'tuple' and first.granted
			and first.database = (select d.oid from pg_database as d where d.datname = current_database())
			and first.relation = m.tableoid and format('(%s,%s)', first.page, first.tuple)::tid = m.ctid
		join l as wanted on wanted.pid = first.pid and wanted.locktype = 'transactionid' and not wanted.granted
		join l as held on held.locktype = 'transactionid' and held.granted and held.transactionid = wanted.transactionid
		left join pg_stat_activity as a on a.pid = held.pid
		left join pg_prepared_xacts as p on p.transaction = held.transactionid
		where m.resource = p_resource
		limit 1;
	if not found then
		return;
	end if;
	id := concat_ws('/', h.pid, h.xid, h.backend_start);
	name := coalesce('backend ' || h.pid, 'the prepared transaction ' || quote_literal(h.gid));
	verdict := case when h.pid is null then 'prepared' when h.waits then 'waits' else 'seen' end;
	if verdict = 'seen' and id = p_end then
		begin
			perform pg_terminate_backend(h.pid);
			verdict := 'ended';
		exception when insufficient_privilege then
			verdict := 'refused';
		end;
	end if;
	return next;
end
$$;

revoke all on all functions in schema fencegate from public;

-- The gateway's role reads and locks marks (FOR NO KEY UPDATE asks for the right to update
-- some column) and changes them by the functions only.
grant execute on function
	fencegate.incarnation(),
	fencegate.raise(text, bigint, text),
	fencegate.retire(text, bigint, text),
	fencegate.evict(text, bigint, text),
	fencegate.mark_holder(text, text)
	to fencegate_gateway;
grant select, update (base) on fencegate.marks to fencegate_gateway;
grant select, insert, update, delete on fencegate.records to fencegate_gateway;

update fencegate.meta set version = 2;
