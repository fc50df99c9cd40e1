-- Returns (is it a standby, has it a fencegate schema).
select pg_is_in_recovery(), to_regclass('fencegate.meta') is not null
