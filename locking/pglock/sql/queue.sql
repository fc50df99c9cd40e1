-- Returns how full the server's queue of notifications is, from 0 to 1.
select pg_notification_queue_usage()
