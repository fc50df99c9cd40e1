-- Returns (verdict, holder), see the function. $1 resource, $2 whether to wait.
select verdict, coalesce(holder, '') from fencegate.row_take($1::text, $2::boolean)
