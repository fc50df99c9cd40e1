-- name: Stock :one
select stock from coupons where id = $1;

-- name: SetStock :exec
update coupons set stock = $2 where id = $1;
