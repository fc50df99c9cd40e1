-- Lease rows, and the functions that grant, renew and end holds. All times are
-- clock_timestamp(), read after the row is locked: now() is as old as the transaction.

-- One row per resource that was ever locked. It stays for ever: number is the counter,
-- grant_id the last grant, of which a delayed repeat must be told that it has ended.
create table fencegate.locks (
	resource   text        collate "C" primary key check (octet_length(resource) between 1 and 200),
	number     bigint      not null default 0 check (number between 0 and 9007199254740991),
	grant_id   text        collate "C" not null default '' check (octet_length(grant_id) in (0, 26)),
	label      text        not null default '' check (octet_length(label) <= 200),
	held       boolean     not null default false,
	expires_at timestamptz not null default 'epoch',
	ttl        interval    not null default '0' check (ttl between '0' and '1 hour'),
	check (not held or number > 0 and grant_id <> '')
) with (fillfactor = 50);
comment on column fencegate.locks.grant_id is 'a secret';
comment on column fencegate.locks.ttl is 'what expires_at was set with: no hold lasts longer, even if the clock is set back';

-- In List's order, only what is held.
create index locks_held on fencegate.locks (resource) where held;

-- lock_milliseconds turns an interval into whole milliseconds, rounded down: a remaining
-- time must not be told longer than it is.
create function fencegate.lock_milliseconds(p interval) returns bigint
	language sql immutable
	set search_path = pg_catalog, pg_temp
as $$ select greatest(0, floor(extract(epoch from p) * 1000))::bigint $$;

-- lock_acquire is one attempt to take a lock. verdict is
--   granted    drawn says whether this call drew number; remaining_ms of the hold
--   held       by another grant: its number, label and remaining_ms
--   lost       the grant is the last one of the resource and has ended
--   exhausted  no number is left
--   busy       another call is at work on the row: look again
create function fencegate.lock_acquire(p_resource text, p_grant text, p_label text, p_ttl_ms bigint, p_floor bigint,
		out verdict text, out number bigint, out drawn boolean, out label text, out remaining_ms bigint)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
	most constant bigint := 9007199254740991;
	want constant interval := p_ttl_ms * interval '1 millisecond';
	l      fencegate.locks;
	locked boolean := false;
	t      timestamptz;
	next   bigint;
begin
	perform fencegate.need_read_committed();
	drawn := false;
	loop
		-- First without a lock, so that those who wait for the lock and look do not get
		-- into the way of its holder. Whatever is to be changed is judged again under the
		-- row's lock.
		if locked then
			select * into l from fencegate.locks where resource = p_resource for no key update skip locked;
			if not found then
				verdict := 'busy';
				return;
			end if;
		else
			select * into l from fencegate.locks where resource = p_resource;
			if not found then
				insert into fencegate.locks (resource) values (p_resource) on conflict (resource) do nothing;
				locked := true;
				continue;
			end if;
		end if;
		t := clock_timestamp();
		number := l.number;
		remaining_ms := fencegate.lock_milliseconds(l.expires_at - t);

		if l.held and l.expires_at > t and l.expires_at <= t + l.ttl then
			if l.grant_id <> p_grant then
				verdict := 'held';
				label := l.label;
				return;
			elsif l.number > p_floor then
				verdict := 'granted';
				return;
			end if;
		elsif not (l.held and l.expires_at > t) and l.grant_id = p_grant then
			verdict := 'lost';
			return;
		end if;

		if not locked then
			locked := true;
			continue;
		end if;

		if l.held and l.expires_at > t + l.ttl then
			-- The clock was set back: no hold lasts longer than its TTL from now.
			update fencegate.locks set expires_at = t + ttl where resource = p_resource;
			continue;
		end if;

		-- A mark above the counter says that the counter went back. Another statement, so
		-- that it sees what was raised while this one waited.
		select greatest(l.number, p_floor, s.floor, m.number) into next
			from fencegate.meta s left join fencegate.marks m on m.resource = p_resource;
		if next >= most then
			verdict := 'exhausted';
			return;
		end if;
		verdict := 'granted';
		drawn := true;
		number := next + 1;
		if l.held and l.expires_at > t then -- this grant under a new number; its expiry stays
			update fencegate.locks set number = next + 1 where resource = p_resource;
		else
			update fencegate.locks
				set number = next + 1, grant_id = p_grant, label = p_label, held = true,
					expires_at = t + want, ttl = want
				where resource = p_resource;
			remaining_ms := p_ttl_ms;
		end if;
		return;
	end loop;
end
$$;

-- lock_renew lets holds last for at least p_ttl_ms from now. One row per token, in any
-- order: i is its place in the arrays, from 1; verdict is renewed, lost or busy (another
-- call is at work on the row: neither renewed nor lost).
create function fencegate.lock_renew(p_resources text[], p_numbers bigint[], p_grants text[], p_ttl_ms bigint)
	returns table (i integer, verdict text)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
	want constant interval := p_ttl_ms * interval '1 millisecond';
	l fencegate.locks;
	t timestamptz;
begin
	perform fencegate.need_read_committed();
	for i in
		select o.i::integer from unnest(p_resources) with ordinality as o (resource, i) order by o.resource collate "C", o.i
	loop
		select * into l from fencegate.locks where resource = p_resources[i] for no key update skip locked;
		if not found then
			verdict := case when exists (select from fencegate.locks where resource = p_resources[i]) then 'busy' else 'lost' end;
			return next;
			continue;
		end if;
		t := clock_timestamp();
		verdict := 'lost';
		if l.held and l.number = p_numbers[i] and l.grant_id = p_grants[i] and l.expires_at > t then
			verdict := 'renewed';
			if l.expires_at < t + want or l.expires_at > t + greatest(l.ttl, want) then
				update fencegate.locks set expires_at = t + want, ttl = want where resource = p_resources[i];
			end if;
		end if;
		return next;
	end loop;
end
$$;

-- lock_release ends the hold of this number and grant; returns whether there was one.
create function fencegate.lock_release(p_resource text, p_number bigint, p_grant text) returns boolean
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	l fencegate.locks;
begin
	perform fencegate.need_read_committed();
	select * into l from fencegate.locks
		where resource = p_resource and number = p_number and grant_id = p_grant and held
		for no key update;
	if not found then
		return false;
	end if;
	update fencegate.locks set held = false where resource = p_resource;
	return l.expires_at > clock_timestamp();
end
$$;

-- lock_evict ends the hold of this number, whoever's it is; returns whether there was one.
create function fencegate.lock_evict(p_resource text, p_number bigint) returns boolean
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
begin
	perform fencegate.need_read_committed();
	update fencegate.locks set held = false where resource = p_resource and number = p_number and held;
	return found;
end
$$;

-- lock_status returns what is known of one lock; no row if it was never locked.
create function fencegate.lock_status(p_resource text)
	returns table (number bigint, held boolean, label text, remaining_ms bigint)
	language sql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
	select l.number, l.held and l.expires_at > t.t, l.label,
		fencegate.lock_milliseconds(least(l.expires_at - t.t, l.ttl))
	from fencegate.locks l, (select clock_timestamp() as t offset 0) t
	where l.resource = p_resource
$$;

-- lock_list returns up to p_limit locks that are held, by name, whose names begin with
-- p_prefix and come after p_after. '~' sorts after every character that a name may have.
create function fencegate.lock_list(p_prefix text, p_after text, p_limit integer)
	returns table (resource text, number bigint, label text, remaining_ms bigint)
	language sql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
	select l.resource, l.number, l.label, fencegate.lock_milliseconds(least(l.expires_at - t.t, l.ttl))
	from fencegate.locks l, (select clock_timestamp() as t offset 0) t
	where l.held and l.expires_at > t.t
		and l.resource > p_after and l.resource >= p_prefix and l.resource < p_prefix || '~'
	order by l.resource
	limit p_limit
$$;

revoke all on all functions in schema fencegate from public;

-- The gateway's role has no right on the table itself: holds change by the functions only.
grant execute on function
	fencegate.lock_acquire(text, text, text, bigint, bigint),
	fencegate.lock_renew(text[], bigint[], text[], bigint),
	fencegate.lock_release(text, bigint, text),
	fencegate.lock_evict(text, bigint),
	fencegate.lock_status(text),
	fencegate.lock_list(text, text, integer)
	to fencegate_gateway;

update fencegate.meta set version = 3;
