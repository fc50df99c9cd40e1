-- Removes the idempotency keys after the key ?2 of the resource ?1, up to and with the key ?4 of the
-- resource ?3, that were written up to ?5 (Unix ms), but not those whose token is the mark in the
-- incarnation ?6.
DELETE FROM fencegate_answers
WHERE (resource, key) > (?1, ?2) AND (resource, key) <= (?3, ?4) AND created_at <= ?5
  AND NOT EXISTS (
    SELECT 1 FROM fencegate_marks AS m
    WHERE m.resource = fencegate_answers.resource AND m.number = fencegate_answers.number
      AND m.retired = 0 AND m.incarnation = ?6
  )
