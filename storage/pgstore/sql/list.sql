-- Returns (key, value, version) of up to $4 records of resource $1 whose keys begin with $2 and come after $3, sorted by key. On a standby it fails.
-- '~' sorts after every character that a key may have.
select key, value, version from fencegate.records
where resource = $1::text and key > $3::text and key >= $2::text and key < $2::text || '~'
	and (select fencegate.incarnation()) is not null
order by key
limit $4::integer
