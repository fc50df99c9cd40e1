-- Removes, of the ?4 oldest idempotency keys of the resource ?1, those written up to ?2 (Unix ms), but
-- not those of the number ?3, which is the mark's.
-- (+ 0: SQLite would compile the statement again for every LIMIT that is a parameter.)
DELETE FROM fencegate_answers
WHERE resource = ?1 AND number <> ?3 AND key IN (
  SELECT key FROM fencegate_answers
  WHERE resource = ?1 AND created_at <= ?2
  ORDER BY created_at
  LIMIT ?4 + 0
)
