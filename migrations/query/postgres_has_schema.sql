-- Returns whether the schema is there. Asked first: CREATE SCHEMA IF NOT EXISTS needs the
-- right to create schemas even where there is nothing to do.
SELECT to_regnamespace('fencegate_migrations') IS NOT NULL
