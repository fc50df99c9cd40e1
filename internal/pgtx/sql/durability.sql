-- Returns (fsync, full_page_writes, synchronous_commit, synchronous_standby_names) as this session has them.
select current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names')
