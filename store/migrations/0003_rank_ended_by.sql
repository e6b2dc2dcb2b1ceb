-- 0003: who put an end to a rank: a victim of the launcher's end, or of a kill, did not fail by itself.

ALTER TABLE rank ADD COLUMN ended_by TEXT; -- order, launcher; NULL: by itself
