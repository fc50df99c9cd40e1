-- Raises the floor to ?1 and the base of absent marks to ?2, unless they are higher.
UPDATE fencegate_meta SET floor = max(floor, ?1), base = max(base, ?2)
