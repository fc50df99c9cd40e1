-- Writes the idempotency key ?2 of the resource ?1: fingerprint ?3, number ?4, answer ?5, at ?6 (Unix ms).
INSERT INTO fencegate_answers (resource, key, fingerprint, number, answer, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
