-- Returns one row: number, grant_id and retired of the mark of ?1 as seen in the
-- incarnation ?2 (the floor, retired, where there is none), and the highest version of
-- its deleted records, or where none is kept the highest that was pruned.
SELECT coalesce(m.number, f.floor),
       coalesce(m.grant_id, ''),
       m.number IS NULL OR m.retired OR m.incarnation <> ?2,
       coalesce(b.version, f.base)
FROM fencegate_meta AS f
LEFT JOIN fencegate_marks AS m ON m.resource = ?1
LEFT JOIN fencegate_bases AS b ON b.resource = ?1
