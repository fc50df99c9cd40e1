-- Row locks: a lock is held by a transaction that has its row locked, and is free when that
-- transaction ends, however it ends. Numbers are drawn in other transactions meanwhile.

-- One row per resource that was ever locked. It never changes, and stays for ever.
create table fencegate.row_locks (
	resource text collate "C" primary key check (octet_length(resource) between 1 and 200)
);

-- The last number and grant of each, and for those who look from outside, what the holder says
-- of itself. It is committed while the lock is held.
create table fencegate.row_grants (
	resource    text        collate "C" primary key check (octet_length(resource) between 1 and 200),
	number      bigint      not null default 0 check (number between 0 and 9007199254740991),
	grant_id    text        collate "C" not null default '' check (octet_length(grant_id) in (0, 26)),
	label       text        not null default '' check (octet_length(label) <= 200),
	holder      xid8        not null default '0',
	incarnation text        collate "C" not null default '',
	expires_at  timestamptz not null default 'epoch',
	ttl         interval    not null default '0' check (ttl between '0' and '1 hour')
) with (fillfactor = 50);
comment on column fencegate.row_grants.grant_id is 'a secret';
comment on column fencegate.row_grants.holder is 'the transaction that has the row of the lock, as long as it runs, in the run of the server that incarnation names';
comment on column fencegate.row_grants.expires_at is 'when the holder lets go unless it renews, by its own clock; nothing is decided by it here';

-- row_held reports whether a transaction runs that began in a run of the server.
create function fencegate.row_held(p_holder xid8, p_incarnation text) returns boolean
	language plpgsql volatile
	set search_path = pg_catalog, pg_temp
as $$
begin
	if p_incarnation <> fencegate.incarnation() then
		return false; -- the id of another transaction by now, or of none
	end if;
	return pg_xact_status(p_holder) is not distinct from 'in progress';
end
$$;

-- row_make makes the rows of a resource. In a transaction of its own: others wait for it.
create function fencegate.row_make(p_resource text) returns void
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
begin
	insert into fencegate.row_grants (resource) values (p_resource) on conflict (resource) do nothing;
	insert into fencegate.row_locks (resource) values (p_resource) on conflict (resource) do nothing;
end
$$;

-- row_take locks the row of a resource for as long as the transaction lasts, which is its
-- holder. It waits as long as lock_timeout lets it, or not at all; that is NOWAIT without
-- the line that an error leaves in the server's log. verdict is taken, held or absent (there
-- is no such row).
create function fencegate.row_take(p_resource text, p_wait boolean, out verdict text, out holder text)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
begin
	perform fencegate.need_read_committed();
	if p_wait then
		perform from fencegate.row_locks where resource = p_resource for update;
	else
		perform from fencegate.row_locks where resource = p_resource for update skip locked;
	end if;
	if found then
		verdict := 'taken';
		holder := pg_current_xact_id()::text;
	else
		verdict := case when exists (select from fencegate.row_locks where resource = p_resource) then 'held' else 'absent' end;
	end if;
end
$$;

-- row_grant draws a number for a holder. It is called in another transaction than the holder's,
-- so that the number stays when that is rolled back. verdict is
--   granted    the grant's number, above p_floor; a repeat finds the same one
--   gone       the holder has ended, or has another row: a call that came late draws nothing
--   lost       the grant is the last one of the resource and has ended
--   exhausted  no number is left
create function fencegate.row_grant(p_resource text, p_grant text, p_label text, p_ttl_ms bigint, p_floor bigint, p_holder text,
		out verdict text, out number bigint)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
	here constant text := fencegate.incarnation();
	want constant interval := p_ttl_ms * interval '1 millisecond';
	who  constant xid8 := p_holder::xid8;
	g    fencegate.row_grants;
	next bigint;
begin
	perform fencegate.need_read_committed();
	select * into g from fencegate.row_grants where resource = p_resource for no key update;
	-- Looked at while the row above is locked: whoever has the lock after this holder draws
	-- its number after this transaction.
	if not found or not fencegate.row_held(who, here)
			or not exists (select from fencegate.row_locks where resource = p_resource and xmax = who::xid) then
		verdict := 'gone';
		return;
	end if;
	verdict := 'granted';
	number := g.number;
	if g.grant_id = p_grant then
		if g.holder <> who or g.incarnation <> here then
			verdict := 'lost';
			return;
		elsif g.number > p_floor then
			return;
		end if;
	end if;
	next := fencegate.lock_next(p_resource, greatest(g.number, p_floor));
	if next is null then
		verdict := 'exhausted';
		return;
	end if;
	number := next;
	if g.grant_id = p_grant then -- this grant under a new number; its expiry stays
		update fencegate.row_grants set number = next where resource = p_resource;
	else
		update fencegate.row_grants
			set number = next, grant_id = p_grant, label = p_label, holder = who, incarnation = here,
				expires_at = clock_timestamp() + want, ttl = want
			where resource = p_resource;
	end if;
end
$$;

-- row_renew notes that holds last for at least p_ttl_ms from now. One row per token, in any
-- order: i is its place in the arrays, from 1. p_own says whether the caller has the holder's
-- connection: of the others nothing is noted. verdict is held or lost.
create function fencegate.row_renew(p_resources text[], p_numbers bigint[], p_grants text[], p_own boolean[], p_ttl_ms bigint)
	returns table (i integer, verdict text)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
	want constant interval := p_ttl_ms * interval '1 millisecond';
	g fencegate.row_grants;
	t timestamptz;
begin
	perform fencegate.need_read_committed();
	for i in
		select o.i::integer from unnest(p_resources) with ordinality as o (resource, i) order by o.resource collate "C", o.i
	loop
		select * into g from fencegate.row_grants
			where resource = p_resources[i] and number = p_numbers[i] and grant_id = p_grants[i]
			for no key update;
		verdict := 'lost';
		if found and fencegate.row_held(g.holder, g.incarnation) then
			verdict := 'held';
			t := clock_timestamp();
			if p_own[i] and g.expires_at < t + want then
				update fencegate.row_grants set expires_at = t + want, ttl = want where resource = p_resources[i];
			end if;
		end if;
		return next;
	end loop;
	-- What a crash takes with it ends the holds as well.
	perform set_config('synchronous_commit', 'off', true);
end
$$;

-- row_end ends the hold of this number, and of this grant unless that is empty, by ending the
-- session whose transaction has the row; returns whether there was one. It is an error if the
-- owner of this function may not end it, or if it does not end. Where the hold ends by itself
-- just then, the session is ended all the same, whatever it has begun since.
create function fencegate.row_end(p_resource text, p_number bigint, p_grant text) returns boolean
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	g     fencegate.row_grants;
	owner integer;
begin
	select * into g from fencegate.row_grants
		where resource = p_resource and number = p_number and p_grant in ('', grant_id);
	if not found or not fencegate.row_held(g.holder, g.incarnation) then
		return false;
	end if;
	-- By what the row and the server say, and not by what some client said of itself. The
	-- holder's own lock on its id is exclusive; those who waited for it to end have it shared,
	-- for a moment after it did.
	select l.pid into owner
		from fencegate.row_locks r
		join pg_locks l on l.locktype = 'transactionid' and l.granted and l.mode = 'ExclusiveLock' and l.transactionid = r.xmax
		where r.resource = p_resource and r.xmax = g.holder::xid;
	if not found then
		return false; -- it has just ended
	end if;
	if not pg_terminate_backend(owner, 5000) and fencegate.row_held(g.holder, g.incarnation) then
		raise exception 'fencegate: the holder''s session % does not end', owner using errcode = 'ZF002';
	end if;
	return true;
end
$$;

-- row_status returns what is known of one lock, and whether its last grant is p_grant; no row
-- if it was never locked.
create function fencegate.row_status(p_resource text, p_grant text)
	returns table (number bigint, held boolean, label text, remaining_ms bigint, same boolean)
	language sql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
	select g.number, fencegate.row_held(g.holder, g.incarnation), g.label,
		fencegate.lock_milliseconds(least(g.expires_at - clock_timestamp(), g.ttl)), g.grant_id = p_grant
	from fencegate.row_grants g
	where g.resource = p_resource and g.number > 0
$$;

-- row_list returns up to p_limit locks that are held, by name, whose names begin with
-- p_prefix and come after p_after. '~' sorts after every character that a name may have.
create function fencegate.row_list(p_prefix text, p_after text, p_limit integer)
	returns table (resource text, number bigint, label text, remaining_ms bigint)
	language sql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
	select g.resource, g.number, g.label, fencegate.lock_milliseconds(least(g.expires_at - clock_timestamp(), g.ttl))
	from fencegate.row_grants g, (select pg_snapshot_xmin(pg_current_snapshot()) as oldest offset 0) s
	where g.resource > p_after and g.resource >= p_prefix and g.resource < p_prefix || '~'
		and case when g.holder >= s.oldest then fencegate.row_held(g.holder, g.incarnation) else false end -- few are asked about
	order by g.resource
	limit p_limit
$$;

revoke all on all functions in schema fencegate from public;

-- The gateway's role has no right on the tables: holds change by the functions only.
grant execute on function
	fencegate.row_make(text),
	fencegate.row_take(text, boolean),
	fencegate.row_grant(text, text, text, bigint, bigint, text),
	fencegate.row_renew(text[], bigint[], text[], boolean[], bigint),
	fencegate.row_end(text, bigint, text),
	fencegate.row_status(text, text),
	fencegate.row_list(text, text, integer)
	to fencegate_gateway;

update fencegate.meta set version = 5;
