-- Returns nothing. $1 how many rows, bench:0 and so on.
insert into plain select 'bench:' || n, '' from generate_series(0, $1::int - 1) n
