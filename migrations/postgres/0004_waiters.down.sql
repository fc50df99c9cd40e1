-- destroys: places in line
drop function fencegate.lock_list(text, text, integer);
drop function fencegate.lock_status(text);
drop function fencegate.lock_transfer(text, bigint, text, text, text, bigint, bigint);
drop function fencegate.lock_leave(text, text);
drop function fencegate.lock_join(text, text, text, bigint, bigint, text);
drop function fencegate.lock_serve(text, text);
drop function fencegate.lock_next(text, bigint);
drop table fencegate.lock_waiters;
alter table fencegate.locks drop column pushed, drop column waiting;

-- From here on, what 0003 made.

-- lock_acquire is one attempt to take a lock. verdict is
--   granted    drawn says whether this call drew number; remaining_ms of the hold
--   held       by another grant: its number, label and remaining_ms
--   lost       the grant is the last one of the resource and has ended
--   exhausted  no number is left
--   busy       another call is at work on the row: look again
create or replace function fencegate.lock_acquire(p_resource text, p_grant text, p_label text, p_ttl_ms bigint, p_floor bigint,
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

-- lock_release ends the hold of this number and grant; returns whether there was one.
create or replace function fencegate.lock_release(p_resource text, p_number bigint, p_grant text) returns boolean
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
create or replace function fencegate.lock_evict(p_resource text, p_number bigint) returns boolean
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

grant execute on function
	fencegate.lock_status(text),
	fencegate.lock_list(text, text, integer)
	to fencegate_gateway;

update fencegate.meta set version = 3;
