-- Returns whether step 1 is here.
SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = 'fencegate_meta'
