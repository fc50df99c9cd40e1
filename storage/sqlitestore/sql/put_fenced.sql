-- Writes the record ?2 of the resource ?1, value ?3, and returns its new version, if the token of the
-- number ?4 and the grant id ?5 is the mark in the incarnation ?6; else it returns no row. A new
-- record's version is above that of the deleted ones.
INSERT INTO fencegate_records (resource, key, value, version)
SELECT ?1, ?2, ?3, coalesce((SELECT version FROM fencegate_bases WHERE resource = ?1), (SELECT base FROM fencegate_meta)) + 1
FROM fencegate_marks
WHERE resource = ?1 AND number = ?4 AND grant_id = ?5 AND retired = 0 AND incarnation = ?6
ON CONFLICT (resource, key) DO UPDATE
SET value = excluded.value, version = fencegate_records.version + 1
RETURNING version
