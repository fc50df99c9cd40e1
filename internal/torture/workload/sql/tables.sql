-- returns nothing; makes the tables of workload table, which are guarded afterwards
create table if not exists torture_rows (
	resource text primary key,
	n bigint not null,
	op text not null
);
create table if not exists torture_audit (
	seq bigserial primary key,
	resource text not null,
	number bigint not null,
	op text not null
);
create index if not exists torture_audit_resource on torture_audit (resource, seq);
