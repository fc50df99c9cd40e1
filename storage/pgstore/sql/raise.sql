-- Returns (reason of the refusal or null, number of the mark that was found). $1 resource, $2 number, $3 grant id.
select refusal, highest from fencegate.raise($1::text, $2::bigint, $3::text)
