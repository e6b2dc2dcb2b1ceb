-- 0005: each kind of a job's data has a time of its own at which it was taken away; there was one for all, the last.

ALTER TABLE dropped ADD COLUMN logs_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dropped ADD COLUMN bundle_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dropped ADD COLUMN metrics_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dropped ADD COLUMN artifacts_us INTEGER NOT NULL DEFAULT 0;
UPDATE dropped SET logs_us = iif(what & 1, at_us, 0), bundle_us = iif(what & 2, at_us, 0),
	metrics_us = iif(what & 4, at_us, 0), artifacts_us = iif(what & 8, at_us, 0);
