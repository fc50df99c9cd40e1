-- Returns (number of marks, resource of the last one, empty if there is none) of up to ?2
-- marks that are not retired, in the order of their resources, after ?1.
SELECT count(*), coalesce(max(resource), '')
FROM (SELECT resource FROM fencegate_marks WHERE resource > ?1 AND retired = 0 ORDER BY resource LIMIT ?2)
