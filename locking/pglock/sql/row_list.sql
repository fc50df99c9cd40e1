-- Returns (resource, number, label, remaining milliseconds) of up to $3 locks that are held, by name, that begin with $1 and come after $2.
select resource, number, label, remaining_ms from fencegate.row_list($1::text, $2::text, $3::integer)
