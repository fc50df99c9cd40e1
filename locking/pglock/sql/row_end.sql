-- Returns whether there was such a hold. $1 resource, $2 number, $3 grant id, or empty for any.
select fencegate.row_end($1::text, $2::bigint, $3::text)
