-- Returns how many resources were entered. $1 resources, $2 their tokens, each separated by commas: so any driver can pass them.
select fencegate.enter_all(string_to_array($1::text, ','), string_to_array($2::text, ','))
