-- The line of those who wait for a lock: a table of places, and functions that serve it.
-- Whoever finds a lock free gives it to the first in line before anybody else.

alter table fencegate.locks
	add column pushed  boolean not null default false,
	add column waiting boolean not null default false;
comment on column fencegate.locks.pushed is 'the last grant was given to a waiter that has not asked for it yet: if it expires so, it was none';
comment on column fencegate.locks.waiting is 'there may be places in line; never false while there are';

-- One row per grant that waits. Rows come and go only while the row of the lock is locked;
-- a waiter that keeps its place changes its own row alone.
create table fencegate.lock_waiters (
	resource text        collate "C" not null check (octet_length(resource) between 1 and 200),
	place    bigint      generated always as identity,
	grant_id text        collate "C" not null check (octet_length(grant_id) = 26),
	label    text        not null check (octet_length(label) <= 200),
	ttl      interval    not null check (ttl between '0' and '1 hour'),
	floor    bigint      not null check (floor between 0 and 9007199254740991),
	channel  text        not null check (octet_length(channel) < 64),
	seen     timestamptz not null,
	primary key (resource, place),
	unique (resource, grant_id)
) with (fillfactor = 50);
comment on column fencegate.lock_waiters.grant_id is 'a secret';
comment on column fencegate.lock_waiters.channel is 'where the waiter''s process listens; empty if it does not';
comment on column fencegate.lock_waiters.seen is 'when the waiter last asked: a place is alive for 5 seconds, also where the clock was set back';

-- lock_next returns a number above p_above, the mark of the resource and the floor of
-- pruned marks; null if none is left. A mark above the counter says that the counter went
-- back. To be called while the row of the lock is locked: it sees what was raised until then.
create function fencegate.lock_next(p_resource text, p_above bigint) returns bigint
	language plpgsql volatile
	set search_path = pg_catalog, pg_temp
as $$
declare
	most constant bigint := 9007199254740991;
	last bigint;
begin
	select greatest(p_above, s.floor, m.number) into last
		from fencegate.meta s left join fencegate.marks m on m.resource = p_resource;
	return case when last < most then last + 1 end;
end
$$;

-- lock_serve is called where a lock is free and its row locked. It gives the lock to the first
-- in line whose place is alive, for 2 seconds at most, and tells that one if the
-- queue of notifications has room. It returns
--   pushed  the lock was given away
--   turn    the first in line is p_grant, which asks right now: its place is given up
--   nobody  nobody is left in line
create function fencegate.lock_serve(p_resource text, p_grant text) returns text
	language plpgsql volatile
	set search_path = pg_catalog, pg_temp
as $$
declare
	w    fencegate.lock_waiters;
	t    timestamptz;
	next bigint;
begin
	loop
		select * into w from fencegate.lock_waiters where resource = p_resource order by place limit 1;
		if not found then
			return 'nobody';
		end if;
		t := clock_timestamp();
		if w.grant_id <> p_grant and (w.seen < t - interval '5 seconds' or w.seen > t + interval '5 seconds') then
			-- Unless it is being kept just now.
			delete from fencegate.lock_waiters where resource = p_resource and place = w.place and seen = w.seen;
			continue;
		end if;
		delete from fencegate.lock_waiters where resource = p_resource and place = w.place returning * into w;
		if w.grant_id = p_grant then
			return 'turn';
		end if;
		select fencegate.lock_next(p_resource, greatest(l.number, w.floor)) into next
			from fencegate.locks l where l.resource = p_resource;
		if next is not null then
			t := clock_timestamp(); -- the row of the place may have been waited for
			update fencegate.locks
				set number = next, grant_id = w.grant_id, label = w.label, held = true, pushed = true,
					expires_at = t + least(w.ttl, interval '2 seconds'), ttl = least(w.ttl, interval '2 seconds')
				where resource = p_resource;
		end if;
		-- A queue that is full, because some session listens and does not read, would make the
		-- COMMIT fail, and the release with it; without word the waiter looks.
		if w.channel <> '' and pg_notification_queue_usage() < 0.5 then
			perform pg_notify(w.channel, p_resource); -- also where it will be told that no number is left
		end if;
		if next is not null then
			return 'pushed';
		end if;
	end loop;
end
$$;

-- lock_join is one attempt to take a lock. p_channel is null for a single attempt; for a
-- request that waits it is where its process listens, or empty. verdict is
--   granted    drawn says whether this call is the first to tell number; remaining_ms of the hold
--   held       by another grant: its number, label and remaining_ms; who waits has a place in line
--   lost       the grant is the last one of the resource and has ended
--   exhausted  no number is left
--   busy       another call is at work on the row: look again
create function fencegate.lock_join(p_resource text, p_grant text, p_label text, p_ttl_ms bigint, p_floor bigint, p_channel text,
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
	line   text; -- what lock_serve said
	t      timestamptz;
	next   bigint;
begin
	perform fencegate.need_read_committed();
	drawn := false;
	loop
		-- First without a lock, so that those who wait for the lock and look do not get
		-- into the way of its holder. Whatever is to be changed is judged again under the
		-- row's lock.
		if not locked then
			select * into l from fencegate.locks where resource = p_resource;
			if not found then
				insert into fencegate.locks (resource) values (p_resource) on conflict (resource) do nothing;
				locked := true;
				continue;
			end if;
		elsif p_channel is not null then -- a place in line is worth the wait
			select * into l from fencegate.locks where resource = p_resource for no key update;
		else
			select * into l from fencegate.locks where resource = p_resource for no key update skip locked;
			if not found then
				verdict := 'busy';
				return;
			end if;
		end if;
		t := clock_timestamp();
		number := l.number;
		remaining_ms := fencegate.lock_milliseconds(l.expires_at - t);

		if l.held and l.expires_at > t and l.expires_at <= t + l.ttl then
			if l.grant_id <> p_grant then
				if p_channel is not null then
					update fencegate.lock_waiters
						set label = p_label, ttl = want, floor = p_floor, channel = p_channel, seen = clock_timestamp()
						where resource = p_resource and grant_id = p_grant;
					if not found and not locked then
						-- No place, or no more: it was thought dead, or has just been given the lock.
						locked := true;
						continue;
					elsif not found then
						insert into fencegate.lock_waiters (resource, grant_id, label, ttl, floor, channel, seen)
							values (p_resource, p_grant, p_label, want, p_floor, p_channel, clock_timestamp());
						update fencegate.locks set waiting = true where resource = p_resource and not waiting;
					end if;
					if line is distinct from 'pushed' then
						-- What a crash may take is a place, which its waiter takes anew.
						perform set_config('synchronous_commit', 'off', true);
					end if;
				end if;
				verdict := 'held';
				label := l.label;
				return;
			elsif l.number > p_floor and not l.pushed then
				verdict := 'granted';
				return;
			end if;
		elsif not (l.held and l.expires_at > t) and l.grant_id = p_grant and not l.pushed then
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

		if l.waiting and not (l.held and l.expires_at > t) then
			line := fencegate.lock_serve(p_resource, p_grant);
			if line = 'pushed' then
				continue;
			end if;
		end if;
		if l.pushed and l.held and l.expires_at > t and l.number > p_floor then
			next := l.number; -- given to this grant, and not told yet
		else -- as lock_next does it, without another call
			select greatest(l.number, p_floor, s.floor, m.number) + 1 into next
				from fencegate.meta s left join fencegate.marks m on m.resource = p_resource;
		end if;
		if next > most then
			verdict := 'exhausted';
			return;
		end if;
		verdict := 'granted';
		drawn := true;
		number := next;
		if l.held and l.expires_at > t and not l.pushed then -- this grant under a new number; its expiry stays
			update fencegate.locks set number = next where resource = p_resource;
		else
			update fencegate.locks
				set number = next, grant_id = p_grant, label = p_label, held = true, pushed = false,
					expires_at = t + want, ttl = want, waiting = l.waiting and line is distinct from 'nobody'
				where resource = p_resource;
			remaining_ms := p_ttl_ms;
		end if;
		return;
	end loop;
end
$$;

-- lock_acquire is what programs call that were built for an earlier schema.
create or replace function fencegate.lock_acquire(p_resource text, p_grant text, p_label text, p_ttl_ms bigint, p_floor bigint,
		out verdict text, out number bigint, out drawn boolean, out label text, out remaining_ms bigint)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
begin
	select j.verdict, j.number, j.drawn, j.label, j.remaining_ms into verdict, number, drawn, label, remaining_ms
		from fencegate.lock_join(p_resource, p_grant, p_label, p_ttl_ms, p_floor, null) as j;
end
$$;

-- lock_leave gives up a grant's place in line, and hands on a lock that it was given and has
-- not asked for.
create function fencegate.lock_leave(p_resource text, p_grant text) returns void
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	l fencegate.locks;
begin
	perform fencegate.need_read_committed();
	select * into l from fencegate.locks where resource = p_resource for no key update;
	delete from fencegate.lock_waiters where resource = p_resource and grant_id = p_grant;
	if l.held and l.pushed and l.grant_id = p_grant then
		if fencegate.lock_serve(p_resource, '') <> 'pushed' then
			update fencegate.locks set held = false, pushed = false, waiting = false where resource = p_resource;
		end if;
	else
		perform set_config('synchronous_commit', 'off', true); -- a place that a crash brings back dies by itself
	end if;
end
$$;

-- lock_transfer ends the hold of this number and grant, and grants the lock to p_to, whoever
-- is in line. verdict is granted, lost (there is no such hold) or exhausted.
create function fencegate.lock_transfer(p_resource text, p_number bigint, p_grant text,
		p_to text, p_label text, p_ttl_ms bigint, p_floor bigint,
		out verdict text, out number bigint)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
	want constant interval := p_ttl_ms * interval '1 millisecond';
	l    fencegate.locks;
	t    timestamptz;
	next bigint;
begin
	perform fencegate.need_read_committed();
	verdict := 'lost';
	select * into l from fencegate.locks
		where resource = p_resource and number = p_number and grant_id = p_grant and held
		for no key update;
	t := clock_timestamp();
	if not found or l.expires_at <= t then
		return;
	end if;
	next := fencegate.lock_next(p_resource, greatest(l.number, p_floor));
	if next is null then
		verdict := 'exhausted';
		return;
	end if;
	delete from fencegate.lock_waiters where resource = p_resource and grant_id = p_to;
	update fencegate.locks
		set number = next, grant_id = p_to, label = p_label, pushed = false, expires_at = t + want, ttl = want
		where resource = p_resource;
	verdict := 'granted';
	number := next;
end
$$;

-- lock_release ends the hold of this number and grant; returns whether there was one.
create or replace function fencegate.lock_release(p_resource text, p_number bigint, p_grant text) returns boolean
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	l fencegate.locks;
	t timestamptz;
begin
	perform fencegate.need_read_committed();
	select * into l from fencegate.locks
		where resource = p_resource and number = p_number and grant_id = p_grant and held
		for no key update;
	if not found then
		return false;
	end if;
	t := clock_timestamp();
	if not l.waiting or fencegate.lock_serve(p_resource, '') <> 'pushed' then
		update fencegate.locks set held = false, pushed = false, waiting = false where resource = p_resource;
	end if;
	return l.expires_at > t;
end
$$;

-- lock_evict ends the hold of this number, whoever's it is; returns whether there was one.
create or replace function fencegate.lock_evict(p_resource text, p_number bigint) returns boolean
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	l fencegate.locks;
begin
	perform fencegate.need_read_committed();
	select * into l from fencegate.locks where resource = p_resource and number = p_number and held for no key update;
	if not found then
		return false;
	end if;
	if not l.waiting or fencegate.lock_serve(p_resource, '') <> 'pushed' then
		update fencegate.locks set held = false, pushed = false, waiting = false where resource = p_resource;
	end if;
	return true;
end
$$;

-- lock_status returns what is known of one lock; no row if it was never locked.
drop function fencegate.lock_status(text);
create function fencegate.lock_status(p_resource text)
	returns table (number bigint, held boolean, label text, remaining_ms bigint, waiters bigint)
	language sql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
	select l.number, l.held and l.expires_at > t.t, l.label,
		fencegate.lock_milliseconds(least(l.expires_at - t.t, l.ttl)),
		(select count(*) from fencegate.lock_waiters w
			where w.resource = l.resource and w.seen between t.t - interval '5 seconds' and t.t + interval '5 seconds')
	from fencegate.locks l, (select clock_timestamp() as t offset 0) t
	where l.resource = p_resource
$$;

-- lock_list returns up to p_limit locks that are held, by name, whose names begin with
-- p_prefix and come after p_after. '~' sorts after every character that a name may have.
drop function fencegate.lock_list(text, text, integer);
create function fencegate.lock_list(p_prefix text, p_after text, p_limit integer)
	returns table (resource text, number bigint, label text, remaining_ms bigint, waiters bigint)
	language sql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
	select l.resource, l.number, l.label, fencegate.lock_milliseconds(least(l.expires_at - t.t, l.ttl)),
		(select count(*) from fencegate.lock_waiters w
			where w.resource = l.resource and w.seen between t.t - interval '5 seconds' and t.t + interval '5 seconds')
	from fencegate.locks l, (select clock_timestamp() as t offset 0) t
	where l.held and l.expires_at > t.t
		and l.resource > p_after and l.resource >= p_prefix and l.resource < p_prefix || '~'
	order by l.resource
	limit p_limit
$$;

revoke all on all functions in schema fencegate from public;

grant execute on function
	fencegate.lock_join(text, text, text, bigint, bigint, text),
	fencegate.lock_leave(text, text),
	fencegate.lock_transfer(text, bigint, text, text, text, bigint, bigint),
	fencegate.lock_status(text),
	fencegate.lock_list(text, text, integer)
	to fencegate_gateway;

update fencegate.meta set version = 4;
