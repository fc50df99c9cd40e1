-- Returns (last name or empty, counters looked at, counters dropped), see the function. $1 name to go on after, $2 age in milliseconds, $3 how many to look at, $4 false to only count.
select coalesce(last, ''), looked, dropped from fencegate.row_prune($1::text, $2::bigint, $3::integer, $4::boolean)
