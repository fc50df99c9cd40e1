-- Returns whether the version table is there. Asked first, so that looking at a new
-- database leaves no error in the server's log.
SELECT to_regclass('fencegate_migrations.version') IS NOT NULL
