-- Returns one row without meaning. $1 is when the server ends this session unless it hears of it again, like '5000ms'. The bound of the statement that waited for the row goes.
select set_config('idle_in_transaction_session_timeout', $1::text, true), set_config('statement_timeout', '0', true)
