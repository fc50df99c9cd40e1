-- The store: the floor, marks, the bases of deleted versions, records.

-- version is that of the newest migration whose objects are here.
CREATE TABLE fencegate_meta (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL CHECK (version >= 1),
  floor   INTEGER NOT NULL CHECK (floor BETWEEN 0 AND 9007199254740991)
) STRICT;

INSERT INTO fencegate_meta (one, version, floor) VALUES (1, 1, 0);

-- incarnation is the run of the store that made the mark; a mark of another run counts
-- as retired. grant_id is a secret.
CREATE TABLE fencegate_marks (
  resource    TEXT    NOT NULL PRIMARY KEY,
  number      INTEGER NOT NULL CHECK (number BETWEEN 1 AND 9007199254740991),
  grant_id    TEXT    NOT NULL,
  retired     INTEGER NOT NULL CHECK (retired IN (0, 1)),
  incarnation TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- The highest version of a resource's deleted records. Apart from the mark, so that it
-- stays when a mark is pruned.
CREATE TABLE fencegate_bases (
  resource TEXT    NOT NULL PRIMARY KEY,
  version  INTEGER NOT NULL CHECK (version >= 1)
) STRICT, WITHOUT ROWID;

-- With a rowid: values can be large, and a large row is slow as a key of its tree.
CREATE TABLE fencegate_records (
  resource TEXT    NOT NULL,
  key      TEXT    NOT NULL,
  value    BLOB    NOT NULL,
  version  INTEGER NOT NULL CHECK (version >= 1),
  PRIMARY KEY (resource, key)
) STRICT;
