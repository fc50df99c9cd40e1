-- Returns nothing. $1 id, $2 stock.
update coupons set stock = $2 where id = $1
