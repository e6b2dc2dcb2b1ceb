-- 0024: what the watches of a job have found, and their state, from which a new hearthd continues.

ALTER TABLE job ADD COLUMN alerts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN alert TEXT NOT NULL DEFAULT '';

CREATE TABLE watch (
	job INTEGER PRIMARY KEY, -- unfinished
	state TEXT NOT NULL      -- JSON
);
