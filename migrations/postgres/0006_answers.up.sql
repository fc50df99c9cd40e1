-- Idempotency records: what a commit with a key was answered.

-- A key belongs to the commit's lowest resource. A row is written by the commit it is about, in
-- its transaction, with the resource's mark locked; it is looked up behind that lock, and before
-- the fence is judged. number is that of the resource's token then: the row stays for its
-- retention, and for as long as that token is the mark.
create table fencegate.answers (
	resource    text        collate "C" not null check (octet_length(resource) between 1 and 200),
	key         text        collate "C" not null check (octet_length(key) between 1 and 200),
	fingerprint bytea       not null check (octet_length(fingerprint) = 32),
	answer      bytea       not null,
	number      bigint      not null check (number between 0 and 9007199254740991),
	created_at  timestamptz not null default clock_timestamp(),
	primary key (resource, key)
);
comment on column fencegate.answers.fingerprint is 'of the resources and operations, never of the tokens';

-- For the sweep, which begins with the oldest, of one resource or of all.
create index answers_age on fencegate.answers (resource, created_at);

grant select, insert, delete on fencegate.answers to fencegate_gateway;

update fencegate.meta set version = 6;
