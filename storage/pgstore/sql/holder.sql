-- Returns (id, name, verdict) of the transaction that others wait for to have a mark, see the function; no row if nobody waits. $1 resource, $2 id of the one to end.
select id, name, verdict from fencegate.mark_holder($1::text, $2::text)
