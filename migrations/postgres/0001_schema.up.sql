-- The schema fencegate, its one-row settings table, and two roles without login.

-- Roles belong to the whole cluster: another database may have made them, or may be
-- making them right now. So whoever comes second catches the error. Nothing is ever
-- altered or granted on a role that may be another database's.
do $$
declare
	name text;
begin
	foreach name in array array['fencegate_app', 'fencegate_gateway'] loop
		if not exists (select from pg_catalog.pg_roles where rolname = name) then
			begin
				execute format('create role %I nologin', name);
			exception when duplicate_object or unique_violation then
				null;
			end;
		end if;
	end loop;
end
$$;

create schema fencegate;
comment on schema fencegate is 'fencegate: marks, records and locks. Changed by "fencegate migrate" only.';

revoke all on schema fencegate from public;
grant usage on schema fencegate to fencegate_app, fencegate_gateway;

-- version is that of the newest migration whose objects are here. A program asks for the
-- version it was built for or a newer one, so it can be replaced after the schema.
create table fencegate.meta (
	one     boolean primary key default true check (one),
	version integer not null check (version >= 1),
	floor   bigint  not null default 0 check (floor between 0 and 9007199254740991)
);
comment on column fencegate.meta.floor is 'below it lay marks that were pruned: an absent mark is {floor, retired}';

insert into fencegate.meta (version) values (1);

grant select on fencegate.meta to fencegate_gateway;
