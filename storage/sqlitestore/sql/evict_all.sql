-- Retires the marks of the resources after ?1 up to and with ?2.
UPDATE fencegate_marks SET grant_id = '', retired = 1, changed_at = unixepoch()
WHERE resource > ?1 AND resource <= ?2 AND retired = 0
