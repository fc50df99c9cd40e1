-- Returns (resource, key, fingerprint, number, answer) of those idempotency records that exist. $1 resources, $2 keys, side by side.
select a.resource, a.key, a.fingerprint, a.number, a.answer
from unnest($1::text[], $2::text[]) as i (resource, key)
join fencegate.answers as a on a.resource = i.resource and a.key = i.key
