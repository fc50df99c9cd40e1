-- Returns a number of the schema. It cannot be told without reading the file.
PRAGMA schema_version
