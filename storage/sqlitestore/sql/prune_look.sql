-- Returns one row about up to ?4 marks after the name ?1, by name: the last name (empty if there
-- is none), how many they are, and of those to be dropped how many, and their highest number
-- and base. To be dropped is what is retired, or of another incarnation than ?2, has not changed
-- since ?3 (Unix seconds), and has neither number nor base above ?5.
SELECT coalesce(max(resource), ''), count(*), coalesce(sum(old), 0),
       coalesce(max(number) FILTER (WHERE old), 0), coalesce(max(base) FILTER (WHERE old), 0)
FROM (
  SELECT m.resource, m.number, coalesce(b.version, 0) AS base,
         (m.retired OR m.incarnation <> ?2) AND m.changed_at < ?3 AND m.number <= ?5 AND coalesce(b.version, 0) <= ?5 AS old
  FROM fencegate_marks AS m
  LEFT JOIN fencegate_bases AS b ON b.resource = m.resource
  WHERE m.resource > ?1
  ORDER BY m.resource
  LIMIT ?4
)
