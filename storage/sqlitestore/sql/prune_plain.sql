-- Returns one row: whether a plain number was ever raised.
SELECT plain FROM fencegate_meta
