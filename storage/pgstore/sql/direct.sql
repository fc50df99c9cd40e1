-- Returns whether a statement of this session that is a transaction of its own is READ COMMITTED and may write.
select current_setting('transaction_isolation') = 'read committed' and current_setting('transaction_read_only') = 'off'
