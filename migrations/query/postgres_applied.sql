-- Returns the version that the newest step wrote in its own transaction.
SELECT version FROM fencegate.meta
