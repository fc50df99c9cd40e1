-- Returns one row without meaning. $1 is how long each of the next statements of the transaction may take, like '5000ms', '0ms' for no bound; the transaction as a whole has none.
select
	set_config('statement_timeout', $1::text, true),
	case when current_setting('transaction_timeout', true) is not null then set_config('transaction_timeout', '0', true) end
