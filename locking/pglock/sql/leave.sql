-- Returns one row without meaning. $1 resource, $2 grant id.
select fencegate.lock_leave($1::text, $2::text)
