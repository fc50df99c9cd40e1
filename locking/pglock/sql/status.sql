-- Returns (number, is it held, label, remaining milliseconds) of one lock, no row if it was never locked. $1 resource.
select number, held, label, remaining_ms from fencegate.lock_status($1::text)
