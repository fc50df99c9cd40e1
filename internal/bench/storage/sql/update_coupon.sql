-- Returns nothing. $1 id.
update coupons set stock = stock - 1 where id = $1 and stock > 0
