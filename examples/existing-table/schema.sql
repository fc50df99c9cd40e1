-- What the team had before: a plain table, and the role that its programs log in as.
create table coupons (
	id    bigint primary key,
	stock integer not null check (stock >= 0)
);
insert into coupons values (42, 100), (43, 100);

grant select, insert, update, delete on coupons to shop;
