-- Returns (synchronous_standby_names, number of servers and programs that receive this server's WAL).
select current_setting('synchronous_standby_names'), (select count(*) from pg_stat_replication)
