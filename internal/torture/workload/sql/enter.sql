-- returns nothing; $1 resource, $2 token
select fencegate.enter($1, $2)
