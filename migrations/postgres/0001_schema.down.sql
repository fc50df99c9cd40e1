-- destroys: marks, counters, records
-- The roles stay: other databases of this cluster may use them.
drop schema fencegate cascade;
