-- Returns one row: the mark of ?1 as mark.sql does, in the incarnation ?2, and value and
-- version of its record ?3, version 0 where there is none. One statement is one snapshot.
SELECT coalesce(m.number, f.floor),
       coalesce(m.grant_id, ''),
       m.number IS NULL OR m.retired OR m.incarnation <> ?2,
       r.value,
       coalesce(r.version, 0)
FROM fencegate_meta AS f
LEFT JOIN fencegate_marks AS m ON m.resource = ?1
LEFT JOIN fencegate_records AS r ON r.resource = ?1 AND r.key = ?3
