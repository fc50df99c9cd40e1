-- destroys: marks, the floor, records
DROP TABLE fencegate_records;
DROP TABLE fencegate_bases;
DROP TABLE fencegate_marks;
DROP TABLE fencegate_meta;
