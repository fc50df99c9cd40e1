-- Take a coupon with psql: the resource and the token in RESOURCE and TOKEN. psql 15 sends no
-- parameters: the token becomes a part of the statement's text, which a server may log.
\set ON_ERROR_STOP on
\set VERBOSITY verbose
\getenv resource RESOURCE
\getenv token TOKEN
select :'token' <> '' as has_token \gset
begin;
\if :has_token
  select fencegate.enter(:'resource', :'token') as number \gset
\endif
update coupons set stock = stock - 1 where 'coupon:' || id = :'resource';
commit;
