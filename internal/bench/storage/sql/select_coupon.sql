-- Returns (stock). $1 id.
select stock from coupons where id = $1
