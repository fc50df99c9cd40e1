-- Writes ?2 as the highest version of the deleted records of ?1.
INSERT INTO fencegate_bases (resource, version)
VALUES (?1, ?2)
ON CONFLICT (resource) DO UPDATE
SET version = excluded.version
