-- Returns one row without meaning. $1 resource.
select fencegate.row_make($1::text)
