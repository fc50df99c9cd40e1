-- Returns nothing. $1 coupon.
insert into orders (coupon) values ($1)
