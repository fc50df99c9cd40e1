-- Undoes the transaction; an error if there is none.
ROLLBACK
