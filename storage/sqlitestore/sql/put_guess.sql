-- Writes the record (resource ?2, key ?3): value ?1, version + 1, if its version is ?4 and the token of the
-- number ?5 and the grant id ?6 is the mark in the incarnation ?7; else it changes no row.
UPDATE fencegate_records SET value = ?, version = version + 1
WHERE resource = ? AND key = ? AND version = ? AND EXISTS (
  SELECT 1 FROM fencegate_marks AS m
  WHERE m.resource = fencegate_records.resource AND m.number = ? AND m.grant_id = ? AND m.retired = 0 AND m.incarnation = ?
)
