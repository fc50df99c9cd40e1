-- Pruning: marks that nobody needs any more are dropped, with the bases of their resources,
-- and floors stand in their place.

-- No base that was pruned was higher: a resource that has none begins with it.
ALTER TABLE fencegate_meta ADD COLUMN base INTEGER NOT NULL DEFAULT 0 CHECK (base >= 0);

-- Whether a number without a grant id was ever raised: those come from elsewhere, where no floor is
-- known, and so marks stay. Of marks that were retired before this step nobody knows.
ALTER TABLE fencegate_meta ADD COLUMN plain INTEGER NOT NULL DEFAULT 0 CHECK (plain IN (0, 1));
UPDATE fencegate_meta SET plain = EXISTS (SELECT 1 FROM fencegate_marks WHERE grant_id = '' AND NOT retired);

-- When the mark was last raised, retired or evicted, in Unix seconds; only pruning asks. What
-- is there counts from this step on.
ALTER TABLE fencegate_marks ADD COLUMN changed_at INTEGER NOT NULL DEFAULT 0;
UPDATE fencegate_marks SET changed_at = unixepoch();

UPDATE fencegate_meta SET version = 3;
