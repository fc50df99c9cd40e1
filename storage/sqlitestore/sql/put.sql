-- Writes the record ?2 of the resource ?1: value ?3, version ?4.
INSERT INTO fencegate_records (resource, key, value, version)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (resource, key) DO UPDATE
SET value = excluded.value, version = excluded.version
