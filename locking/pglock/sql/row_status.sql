-- Returns (number, is it held, label, remaining milliseconds, is the last grant $2) of one lock, no row if it was never locked. $1 resource, $2 grant id, or empty.
select number, held, label, remaining_ms, same from fencegate.row_status($1::text, $2::text)
