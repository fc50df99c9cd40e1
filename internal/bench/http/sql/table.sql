-- Returns nothing. The table of a team without a fence, with the fillfactor of fencegate.records.
create table plain (
	id    text  collate "C" primary key,
	value bytea not null
) with (fillfactor = 70)
