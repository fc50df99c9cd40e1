-- Returns in words what was done. $1 table.
select fencegate.unprotect($1::text::regclass)
