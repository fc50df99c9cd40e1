-- Returns the token's number. $1 resource, $2 token.
select fencegate.enter($1::text, $2::text)
