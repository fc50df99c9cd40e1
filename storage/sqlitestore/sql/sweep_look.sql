-- Returns the resource and the key of the last of the next ?3 idempotency keys after the key ?2 of the
-- resource ?1, in the order of the table; no row if there is none.
SELECT resource, key
FROM (
  SELECT resource, key FROM fencegate_answers
  WHERE (resource, key) > (?1, ?2)
  ORDER BY resource, key
  LIMIT ?3
)
ORDER BY resource DESC, key DESC
LIMIT 1
