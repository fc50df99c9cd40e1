-- Creates the schema of the version table. It is one of its own, so that it is neither in
-- the way of step 1, which creates the schema fencegate, nor lost with it, nor taken for
-- a team's own golang-migrate table.
CREATE SCHEMA IF NOT EXISTS fencegate_migrations
