-- destroys: idempotency records
DROP TABLE fencegate_answers;
UPDATE fencegate_meta SET version = 1;
