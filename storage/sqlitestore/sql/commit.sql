-- Commits; what it returns without an error is on the disk.
COMMIT
