-- Returns in words what was done. $1 table, $2 prefix, $3 column, $4 whether in shadow mode.
select fencegate.protect($1::text::regclass, $2::text, $3::text, $4::boolean)
