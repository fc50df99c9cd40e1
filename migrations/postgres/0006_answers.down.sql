-- destroys: idempotency records
drop table fencegate.answers;
update fencegate.meta set version = 5;
