-- Begins a transaction, which has the write lock from here on.
BEGIN IMMEDIATE
