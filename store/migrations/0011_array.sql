-- 0011: arrays and sweeps. A member has the number of the job that it belongs to; that job has the number of its members, whose ids follow its own
-- one after the other: member 3 of job 17 is job 21. rungs: what a member had come to at each comparison of successive halving, halved: it was stopped there.

ALTER TABLE job ADD COLUMN array INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN members INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN halved INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN rungs TEXT;
-- Members by how they stand, to be counted without reading them.
CREATE INDEX job_member ON job (array, status) WHERE array > 0;
CREATE INDEX job_array ON job (status) WHERE members > 0;
