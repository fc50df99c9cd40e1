-- Returns (number, is it held, label, remaining milliseconds, waiters) of one lock, no row if it was never locked. $1 resource.
select number, held, label, remaining_ms, waiters from fencegate.lock_status($1::text)
