-- Returns whether step 1 is here.
SELECT to_regclass('fencegate.meta') IS NOT NULL
