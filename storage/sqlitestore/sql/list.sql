-- Returns key, value and version of up to ?5 records of the resource ?1, sorted by key as
-- bytes: keys after ?2, from ?3 and below ?4.
-- (+ 0: SQLite would compile the statement again for every LIMIT that is a parameter.)
SELECT key, value, version
FROM fencegate_records
WHERE resource = ?1 AND key > ?2 AND key >= ?3 AND key < ?4
ORDER BY key
LIMIT ?5 + 0
