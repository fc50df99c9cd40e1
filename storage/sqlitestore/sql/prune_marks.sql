-- Drops the marks after ?1 up to the name ?4 that are to be dropped, see prune_look.sql for ?2, ?3 and ?5. Their bases are gone by now.
DELETE FROM fencegate_marks
WHERE resource > ?1 AND resource <= ?4
  AND (retired OR incarnation <> ?2) AND changed_at < ?3 AND number <= ?5
  AND NOT EXISTS (SELECT 1 FROM fencegate_bases AS b WHERE b.resource = fencegate_marks.resource)
