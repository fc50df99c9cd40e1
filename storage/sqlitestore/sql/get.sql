-- Returns value and version of the record ?2 of the resource ?1, if it is there.
SELECT value, version
FROM fencegate_records
WHERE resource = ?1 AND key = ?2
