-- Returns the version of the schema.
select version from fencegate.meta
