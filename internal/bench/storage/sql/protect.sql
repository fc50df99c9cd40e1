-- Returns what protect returns.
select fencegate.protect('public.guarded'::regclass, 'coupon:', 'id')
