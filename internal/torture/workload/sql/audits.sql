-- returns seq, number and op; $1 resource
select seq, number, op from torture_audit where resource = $1 order by seq
