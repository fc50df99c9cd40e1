-- destroys: marks, records
drop function fencegate.mark_holder(text, text);
drop function fencegate.evict(text, bigint, text);
drop function fencegate.retire(text, bigint, text);
drop function fencegate.raise(text, bigint, text);
drop function fencegate.absent_floor();
drop function fencegate.need_read_committed();
drop function fencegate.incarnation();
drop table fencegate.records;
drop table fencegate.marks;
update fencegate.meta set version = 1, floor = 0;
