-- Returns (updates, those that stayed in their page) of a table. $1 schema, $2 table.
select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where schemaname = $1 and relname = $2
