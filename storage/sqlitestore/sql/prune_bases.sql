-- Drops the bases of those marks after ?1 up to the name ?4 that are to be dropped, see prune_look.sql for ?2, ?3 and ?5.
DELETE FROM fencegate_bases
WHERE resource > ?1 AND resource <= ?4 AND version <= ?5
  AND EXISTS (
    SELECT 1 FROM fencegate_marks AS m
    WHERE m.resource = fencegate_bases.resource
      AND (m.retired OR m.incarnation <> ?2) AND m.changed_at < ?3 AND m.number <= ?5
  )
