-- Returns fingerprint, number and answer of the idempotency key ?2 of the resource ?1, if it is there.
SELECT fingerprint, number, answer
FROM fencegate_answers
WHERE resource = ?1 AND key = ?2
