-- Makes the lock store forget a resource, its hold and its counter, as the loss of the table would. $1 resource.
with waiting as (delete from fencegate.lock_waiters where resource = $1::text)
delete from fencegate.locks where resource = $1::text
