-- Returns whether the token was the mark. $1 resource, $2 number, $3 grant id.
select fencegate.retire($1::text, $2::bigint, $3::text)
