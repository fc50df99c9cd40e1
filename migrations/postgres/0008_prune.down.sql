-- destroys: the highest version of deleted records where the mark was pruned
drop function fencegate.row_prune(text, bigint, integer, boolean);
drop function fencegate.lock_prune(text, bigint, integer, boolean);
drop function fencegate.prune(text, bigint, integer, boolean);
drop function fencegate.prune_age(bigint);

-- As in the step up.
set local lock_timeout = '3s';
lock table fencegate.locks, fencegate.marks, fencegate.meta in access exclusive mode;

-- Every number is drawn above the floor of marks: those of dropped counters stay below it.
update fencegate.meta set floor = greatest(floor, lock_floor);

drop table fencegate.prune_gate;
alter table fencegate.locks drop column changed_at;
alter table fencegate.marks drop column changed_at;
alter table fencegate.meta drop column base, drop column lock_floor, drop column plain;

alter function fencegate.row_end(text, bigint, text) reset plan_cache_mode;
alter function fencegate.row_renew(text[], bigint[], text[], boolean[], bigint) reset plan_cache_mode;

-- From here on, what the earlier steps made.

-- absent_floor is called where a mark was not found and is about to be made. Pruning
-- deletes marks and raises the floor; it takes this lock in its exclusive form (the two-key
-- form, which few applications use), so the floor that is returned stays true until the
-- caller's transaction ends.
create or replace function fencegate.absent_floor() returns bigint
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
create or replace function fencegate.raise(p_resource text, p_number bigint, p_grant text,
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
create or replace function fencegate.retire(p_resource text, p_number bigint, p_grant text) returns boolean
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
create or replace function fencegate.evict(p_resource text, p_number bigint, p_grant text) returns boolean
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

-- lock_serve is called where a lock is free and its row locked. It gives the lock to the first
-- in line whose place is alive, for 2 seconds at most, and tells that one if the
-- queue of notifications has room. It returns
--   pushed  the lock was given away
--   turn    the first in line is p_grant, which asks right now: its place is given up
--   nobody  nobody is left in line
create or replace function fencegate.lock_serve(p_resource text, p_grant text) returns text
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
create or replace function fencegate.lock_join(p_resource text, p_grant text, p_label text, p_ttl_ms bigint, p_floor bigint, p_channel text,
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

-- lock_leave gives up a grant's place in line, and hands on a lock that it was given and has
-- not asked for.
create or replace function fencegate.lock_leave(p_resource text, p_grant text) returns void
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
create or replace function fencegate.lock_transfer(p_resource text, p_number bigint, p_grant text,
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

-- row_make makes the rows of a resource. In a transaction of its own: others wait for it.
create or replace function fencegate.row_make(p_resource text) returns void
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
begin
	insert into fencegate.row_grants (resource) values (p_resource) on conflict (resource) do nothing;
	insert into fencegate.row_locks (resource) values (p_resource) on conflict (resource) do nothing;
end
$$;

-- row_grant draws a number for a holder. It is called in another transaction than the holder's,
-- so that the number stays when that is rolled back. verdict is
--   granted    the grant's number, above p_floor; a repeat finds the same one
--   gone       the holder has ended, or has another row: a call that came late draws nothing
--   lost       the grant is the last one of the resource and has ended
--   exhausted  no number is left
create or replace function fencegate.row_grant(p_resource text, p_grant text, p_label text, p_ttl_ms bigint, p_floor bigint, p_holder text,
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

update fencegate.meta set version = 7;
