-- Returns nothing. $1 id.
update guarded set stock = stock - 1 where id = $1 and stock > 0
