-- Returns (value, version) of one record, or no row. $1 resource, $2 key. On a standby it fails: incarnation() cannot be asked there.
select value, version from fencegate.records
where resource = $1::text and key = $2::text and (select fencegate.incarnation()) is not null
