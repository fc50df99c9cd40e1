-- Removes the record ?2 of the resource ?1.
DELETE FROM fencegate_records
WHERE resource = ?1 AND key = ?2
