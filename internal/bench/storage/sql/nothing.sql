-- Returns its parameters. $1 resource, $2 token. It stands in enter's place: what any statement costs there.
select $1::text, $2::text
