-- destroys: counters of row locks
drop function fencegate.row_list(text, text, integer);
drop function fencegate.row_status(text, text);
drop function fencegate.row_end(text, bigint, text);
drop function fencegate.row_renew(text[], bigint[], text[], boolean[], bigint);
drop function fencegate.row_grant(text, text, text, bigint, bigint, text);
drop function fencegate.row_take(text, boolean);
drop function fencegate.row_make(text);
drop function fencegate.row_held(xid8, text);
drop table fencegate.row_grants;
drop table fencegate.row_locks;
update fencegate.meta set version = 4;
