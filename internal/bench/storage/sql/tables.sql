-- What a team without fences has: a value per name, and coupons with their stock. fillfactor is that of fencegate.records.
create table plain (
	id    text  collate "C" primary key,
	value bytea not null
) with (fillfactor = 70);

create table coupons (
	id    text   collate "C" primary key,
	stock bigint not null
) with (fillfactor = 70);

create table guarded (like coupons including all) with (fillfactor = 70);

create table orders (
	id     bigint generated always as identity primary key,
	coupon text   not null
);
