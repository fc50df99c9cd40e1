-- Pruning: marks and counters that nobody needs any more are dropped, and floors stand in
-- their place.

-- Nobody gets past who waits for these. Behind a reader that takes its time (a dump, a report)
-- this step fails rather than keep everybody waiting: run it again.
set local lock_timeout = '3s';
lock table fencegate.locks, fencegate.marks, fencegate.meta in access exclusive mode;

alter table fencegate.meta
	add column base       bigint not null default 0 check (base >= 0),
	add column lock_floor bigint not null default 0 check (lock_floor between 0 and 9007199254740991),
	add column plain      boolean not null default false;
comment on column fencegate.meta.base is 'no base of a mark that was pruned was higher: a new mark begins with it';
comment on column fencegate.meta.lock_floor is 'no number of a counter that was pruned was higher: a new counter begins above it';
comment on column fencegate.meta.plain is 'a number without a grant id was raised: those come from elsewhere, where no floor is known, and so marks stay';
-- Of marks that were retired before this step nobody knows.
update fencegate.meta set plain = exists (select from fencegate.marks where grant_id = '' and not retired);

-- What is there counts from this step on: now() is the same for all rows, and so needs no new
-- copy of the table.
alter table fencegate.marks add column changed_at timestamptz not null default now();
alter table fencegate.marks alter column changed_at set default clock_timestamp();
comment on column fencegate.marks.changed_at is 'when it was last raised, retired or evicted; only pruning asks';

alter table fencegate.locks add column changed_at timestamptz not null default now();
alter table fencegate.locks alter column changed_at set default clock_timestamp();
comment on column fencegate.locks.changed_at is 'when its last hold began or was ended; only pruning asks, and beside it for expires_at';

-- Whoever makes a mark where there was none, and prune, lock this table against each other. It
-- has no rows, and nobody has a right to it: an advisory lock could be taken, and kept, by
-- everybody who may connect. Whoever only reads, as a dump does, is in nobody's way.
create table fencegate.prune_gate ();
comment on table fencegate.prune_gate is 'locked by those who make a mark where there was none, and against them by prune';
revoke all on fencegate.prune_gate from public, fencegate_app, fencegate_gateway;

-- absent_floor is called where a mark was not found and is about to be made. Pruning
-- deletes marks and raises the floor; it takes the lock in a mode that conflicts with this one, so
-- the floor that is returned stays true until the caller's transaction ends. Only functions of
-- the owner may call it.
create or replace function fencegate.absent_floor() returns bigint
	language plpgsql volatile
	set search_path = pg_catalog, pg_temp
as $$
declare
	f bigint;
begin
	lock table fencegate.prune_gate in row exclusive mode;
	select floor into strict f from fencegate.meta; -- its snapshot is younger than the lock
	return f;
end
$$;

-- raise makes a token the mark. refusal is null where it is the mark now, else the
-- reason; highest is the number of the mark that it was judged by. The first plain number that
-- becomes a mark is noted for good: a store that has any is not pruned.
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
			insert into fencegate.marks (resource, number, grant_id, incarnation, base)
				select p_resource, p_number, p_grant, here, s.base from fencegate.meta as s
				on conflict (resource) do nothing;
			if found then
				if p_grant = '' then
					update fencegate.meta set plain = true where not plain;
				end if;
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
				set number = p_number, grant_id = p_grant, retired = false, incarnation = here, changed_at = clock_timestamp()
				where resource = p_resource;
			if p_grant = '' then
				update fencegate.meta set plain = true where not plain;
			end if;
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
		set grant_id = '', retired = true, changed_at = clock_timestamp()
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
			set number = p_number, grant_id = '', retired = true, incarnation = here, changed_at = clock_timestamp()
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
		insert into fencegate.marks (resource, number, grant_id, retired, incarnation, base)
			select p_resource, p_number, '', true, here, s.base from fencegate.meta as s
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
					expires_at = t + least(w.ttl, interval '2 seconds'), ttl = least(w.ttl, interval '2 seconds'), changed_at = t
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
			if not found then -- it was dropped meanwhile: make it anew
				locked := false;
				continue;
			end if;
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
			-- A row without a number is new. If there was one before it, whoever dropped that had
			-- raised lock_floor when this one could be made.
			select greatest(l.number, case when l.number = 0 then s.lock_floor end, p_floor, s.floor, m.number) + 1 into next
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
					expires_at = t + want, ttl = want, waiting = l.waiting and line is distinct from 'nobody',
					changed_at = t
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
			update fencegate.locks set held = false, pushed = false, waiting = false, changed_at = clock_timestamp() where resource = p_resource;
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
		set number = next, grant_id = p_to, label = p_label, pushed = false, expires_at = t + want, ttl = want, changed_at = t
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
		update fencegate.locks set held = false, pushed = false, waiting = false, changed_at = clock_timestamp() where resource = p_resource;
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
		update fencegate.locks set held = false, pushed = false, waiting = false, changed_at = clock_timestamp() where resource = p_resource;
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
	loop
		insert into fencegate.row_locks (resource) values (p_resource) on conflict (resource) do nothing;
		insert into fencegate.row_grants (resource, expires_at) values (p_resource, clock_timestamp()) on conflict (resource) do nothing;
		-- Where both were there, and were dropped after the first of these statements, only one
		-- was made. A row to lock without a number beside it could be locked and never granted.
		exit when exists (select from fencegate.row_locks where resource = p_resource);
	end loop;
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
	-- As in lock_join: a row without a number is new.
	next := fencegate.lock_next(p_resource, greatest(g.number, p_floor,
		(select s.lock_floor from fencegate.meta as s where g.number = 0)));
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

-- prune_age refuses an age that is less than an hour.
create function fencegate.prune_age(p_age_ms bigint) returns void
	language plpgsql immutable
	set search_path = pg_catalog, pg_temp
as $$
begin
	if p_age_ms is null or p_age_ms < 3600000 then
		raise exception 'fencegate: what is pruned has to be 3600000 ms old or older, the longest TTL of a lock'
			using errcode = 'invalid_parameter_value';
	end if;
end
$$;

-- prune is one step on its way through the marks by name: it looks at up to p_page of them
-- after p_after, and if p_drop is set, drops those that are retired, or of another
-- incarnation, and have not changed for p_age_ms. last is the name that the next step goes on
-- after, null at the end; dropped is how many went, or would without p_drop.
-- An age below an hour, the longest TTL of a lock, is refused (22023), and so is a store that
-- has ever taken a plain number (ZF003): whoever counts them cannot be sent above a floor.
--
-- What stands in a mark's place is the floor: no token up to it is accepted or raised where
-- there is no mark. It is everybody's, so a mark in the upper half of all numbers stays:
-- one resource that somebody bricked must not use up the numbers of all.
create function fencegate.prune(p_after text, p_age_ms bigint, p_page integer, p_drop boolean,
		out last text, out looked bigint, out dropped bigint)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	half   constant bigint := 4503599627370496;
	no     constant text := 'fencegate: this store has taken plain numbers from an outside lock service, which cannot be drawn again above a floor: it is not pruned';
	here   constant text := fencegate.incarnation();
	before constant timestamptz := clock_timestamp() - p_age_ms * interval '1 millisecond';
	names  text[];
	high   bigint;
	top    bigint;
begin
	perform fencegate.need_read_committed();
	perform fencegate.prune_age(p_age_ms);
	if exists (select from fencegate.meta as s where s.plain) then
		raise exception '%', no using errcode = 'ZF003';
	end if;
	-- Without a lock, so that the raises of new resources wait only for what is to be done.
	select max(p.resource), count(*),
			array_agg(p.resource) filter (where (p.retired or p.incarnation <> here) and p.changed_at < before
				and p.number <= half and p.base <= half)
		into last, looked, names
		from (select * from fencegate.marks as m where m.resource > p_after order by m.resource limit p_page) as p;
	dropped := coalesce(cardinality(names), 0);
	if dropped = 0 or not p_drop then
		return;
	end if;
	-- The counterpart of absent_floor: behind this lock, whoever found no mark has made one, or
	-- will see the new floor. Else a mark that was looked for before it could be made below it.
	lock table fencegate.prune_gate in share mode;
	select array_agg(d.resource), max(d.number), max(d.base) into names, high, top
		from (select * from fencegate.marks as m
			where m.resource = any (names) and (m.retired or m.incarnation <> here) and m.changed_at < before
				and m.number <= half and m.base <= half
			order by m.resource
			for update skip locked) as d;
	dropped := coalesce(cardinality(names), 0);
	if dropped = 0 then
		return;
	end if;
	update fencegate.meta as s set floor = greatest(s.floor, high), base = greatest(s.base, top) where not s.plain;
	if not found then -- the first plain number has come since
		raise exception '%', no using errcode = 'ZF003';
	end if;
	delete from fencegate.marks as m where m.resource = any (names);
end
$$;

-- lock_prune is such a step through the counters of locks. It drops the rows of those that
-- are not held, and nobody waits for, and were not for p_age_ms. Places in line that are as
-- old are dead, and go as well.
--
-- With the row goes its last grant: a repeat of that one's request would get the lock, and not
-- be told that it has ended. So p_age_ms has to be longer than any request can be on its way.
-- No lock but that of the row is needed: a new row cannot be made before this transaction
-- has ended, and its first number is drawn later still.
create function fencegate.lock_prune(p_after text, p_age_ms bigint, p_page integer, p_drop boolean,
		out last text, out looked bigint, out dropped bigint)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	half   constant bigint := 4503599627370496;
	before constant timestamptz := clock_timestamp() - p_age_ms * interval '1 millisecond';
	names  text[];
begin
	perform fencegate.need_read_committed();
	perform fencegate.prune_age(p_age_ms);
	select max(p.resource), count(*),
			array_agg(p.resource) filter (where p.changed_at < before and not (p.held and p.expires_at >= before) and p.number <= half
				and not exists (select from fencegate.lock_waiters as w where w.resource = p.resource and w.seen >= before))
		into last, looked, names
		from (select * from fencegate.locks as l where l.resource > p_after order by l.resource limit p_page) as p;
	dropped := coalesce(cardinality(names), 0);
	if dropped = 0 or not p_drop then
		return;
	end if;
	select array_agg(d.resource) into names
		from (select * from fencegate.locks as l
			where l.resource = any (names) and l.changed_at < before and not (l.held and l.expires_at >= before) and l.number <= half
			order by l.resource
			for update skip locked) as d;
	-- Places come only while the row of the lock is locked: what is seen from here on is all.
	delete from fencegate.lock_waiters as w where w.resource = any (names) and w.seen < before;
	select array_agg(n.name) into names from unnest(names) as n (name)
		where not exists (select from fencegate.lock_waiters as w where w.resource = n.name);
	dropped := coalesce(cardinality(names), 0);
	if dropped = 0 then
		return;
	end if;
	update fencegate.meta as s set lock_floor = greatest(s.lock_floor, d.highest)
		from (select max(l.number) as highest from fencegate.locks as l where l.resource = any (names)) as d;
	delete from fencegate.locks as l where l.resource = any (names);
end
$$;

-- row_prune is lock_prune for row locks. Whoever holds one has its row locked, and those who
-- wait are in the server's line for that: such a row is passed over.
create function fencegate.row_prune(p_after text, p_age_ms bigint, p_page integer, p_drop boolean,
		out last text, out looked bigint, out dropped bigint)
	language plpgsql volatile security definer
	set search_path = pg_catalog, pg_temp
as $$
declare
	half   constant bigint := 4503599627370496;
	before constant timestamptz := clock_timestamp() - p_age_ms * interval '1 millisecond';
	names  text[];
begin
	perform fencegate.need_read_committed();
	perform fencegate.prune_age(p_age_ms);
	select max(p.resource), count(*),
			array_agg(p.resource) filter (where p.expires_at < before and p.number <= half and not fencegate.row_held(p.holder, p.incarnation))
		into last, looked, names
		from (select * from fencegate.row_grants as g where g.resource > p_after order by g.resource limit p_page) as p;
	dropped := coalesce(cardinality(names), 0);
	if dropped = 0 or not p_drop then
		return;
	end if;
	select array_agg(d.resource) into names
		from (select g.resource from fencegate.row_grants as g join fencegate.row_locks as l on l.resource = g.resource
			where g.resource = any (names) and g.expires_at < before and g.number <= half
			order by g.resource
			for update skip locked) as d;
	dropped := coalesce(cardinality(names), 0);
	if dropped = 0 then
		return;
	end if;
	update fencegate.meta as s set lock_floor = greatest(s.lock_floor, d.highest)
		from (select max(g.number) as highest from fencegate.row_grants as g where g.resource = any (names)) as d;
	delete from fencegate.row_grants as g where g.resource = any (names);
	delete from fencegate.row_locks as l where l.resource = any (names);
end
$$;

revoke all on function
	fencegate.prune_age(bigint),
	fencegate.prune(text, bigint, integer, boolean),
	fencegate.lock_prune(text, bigint, integer, boolean),
	fencegate.row_prune(text, bigint, integer, boolean)
	from public;
grant execute on function
	fencegate.prune(text, bigint, integer, boolean),
	fencegate.lock_prune(text, bigint, integer, boolean),
	fencegate.row_prune(text, bigint, integer, boolean)
	to fencegate_gateway;

-- A plan made for one call would have its grant id as a constant, which auto_explain can log.
alter function fencegate.raise(text, bigint, text) set plan_cache_mode = force_generic_plan;
alter function fencegate.retire(text, bigint, text) set plan_cache_mode = force_generic_plan;
alter function fencegate.evict(text, bigint, text) set plan_cache_mode = force_generic_plan;
alter function fencegate.lock_serve(text, text) set plan_cache_mode = force_generic_plan;
alter function fencegate.lock_join(text, text, text, bigint, bigint, text) set plan_cache_mode = force_generic_plan;
alter function fencegate.lock_leave(text, text) set plan_cache_mode = force_generic_plan;
alter function fencegate.lock_transfer(text, bigint, text, text, text, bigint, bigint) set plan_cache_mode = force_generic_plan;
alter function fencegate.lock_release(text, bigint, text) set plan_cache_mode = force_generic_plan;
alter function fencegate.row_grant(text, text, text, bigint, bigint, text) set plan_cache_mode = force_generic_plan;
alter function fencegate.row_end(text, bigint, text) set plan_cache_mode = force_generic_plan;
alter function fencegate.row_renew(text[], bigint[], text[], boolean[], bigint) set plan_cache_mode = force_generic_plan;

update fencegate.meta set version = 8;
