-- A value per name, in an ordinary table without a fence.
create table plain (
	id    text primary key,
	value blob not null
)
