-- destroys: counters
drop function fencegate.lock_list(text, text, integer);
drop function fencegate.lock_status(text);
drop function fencegate.lock_evict(text, bigint);
drop function fencegate.lock_release(text, bigint, text);
drop function fencegate.lock_renew(text[], bigint[], text[], bigint);
drop function fencegate.lock_acquire(text, text, text, bigint, bigint);
drop function fencegate.lock_milliseconds(interval);
drop table fencegate.locks;
update fencegate.meta set version = 2;
