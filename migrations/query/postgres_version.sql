-- Returns the version and whether its step was left half done; no row before the first step.
SELECT version, dirty FROM fencegate_migrations.version
