-- Idempotency records: what a commit with a key was answered.

-- A key belongs to the commit's lowest resource. number is that of the resource's token when the
-- answer was given: the row stays for its retention, and for as long as that token is the mark.
-- created_at is in Unix milliseconds.
CREATE TABLE fencegate_answers (
  resource    TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
  answer      BLOB    NOT NULL,
  number      INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  PRIMARY KEY (resource, key)
) STRICT, WITHOUT ROWID;

-- For the sweep, which begins with the oldest, of one resource or of all.
CREATE INDEX fencegate_answers_age ON fencegate_answers (resource, created_at);

UPDATE fencegate_meta SET version = 2;
