-- returns nothing; $1 resource, $2 n, $3 op
insert into torture_rows (resource, n, op) values ($1, $2, $3)
on conflict (resource) do update set n = excluded.n, op = excluded.op
