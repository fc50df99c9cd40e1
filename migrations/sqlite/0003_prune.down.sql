-- destroys: the highest version of deleted records where the mark was pruned
ALTER TABLE fencegate_marks DROP COLUMN changed_at;
ALTER TABLE fencegate_meta DROP COLUMN plain;
ALTER TABLE fencegate_meta DROP COLUMN base;
UPDATE fencegate_meta SET version = 2;
