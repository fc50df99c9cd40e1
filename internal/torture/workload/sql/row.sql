-- returns n and op; $1 resource
select n, op from torture_rows where resource = $1
