-- Notes that a plain number was raised, unless it is noted.
UPDATE fencegate_meta SET plain = 1 WHERE NOT plain
