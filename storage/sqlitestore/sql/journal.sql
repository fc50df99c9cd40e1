-- Returns how this connection writes: journal mode, and 2 for synchronous=FULL.
SELECT (SELECT journal_mode FROM pragma_journal_mode()), (SELECT synchronous FROM pragma_synchronous())
