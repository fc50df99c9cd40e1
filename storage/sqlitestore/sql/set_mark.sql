-- Writes the mark of ?1: number ?2, grant_id ?3, retired ?4, made in the incarnation ?5.
INSERT INTO fencegate_marks (resource, number, grant_id, retired, incarnation, changed_at)
VALUES (?1, ?2, ?3, ?4, ?5, unixepoch())
ON CONFLICT (resource) DO UPDATE
SET number = excluded.number, grant_id = excluded.grant_id, retired = excluded.retired,
    incarnation = excluded.incarnation, changed_at = excluded.changed_at
