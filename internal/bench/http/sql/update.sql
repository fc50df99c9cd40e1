-- Returns nothing. $1 id, $2 value.
update plain set value = $2 where id = $1
