-- returns seq; $1 resource, $2 number, $3 op
insert into torture_audit (resource, number, op) values ($1, $2, $3) returning seq
