-- Returns whether the version table is there.
SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = 'fencegate_migrations'
