-- 0023: what follows the end of an attempt: evidence and plan of each attempt, what a job's restarts have used up, and how long its attempts had their nodes.
-- Ended attempts of unfinished jobs count for the time limit. What earlier versions tried again on other nodes does not count as a restart.

ALTER TABLE job ADD COLUMN held_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN plan_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN plan_capacity INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN plan_rollbacks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN plan_stuck INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN plan_unstarted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN plan_day_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN plan_mark INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN skip_steps TEXT NOT NULL DEFAULT '';

ALTER TABLE attempt ADD COLUMN evidence TEXT NOT NULL DEFAULT '';
ALTER TABLE attempt ADD COLUMN plan TEXT NOT NULL DEFAULT '';
ALTER TABLE attempt ADD COLUMN skip_steps TEXT NOT NULL DEFAULT '';
ALTER TABLE attempt ADD COLUMN lost_steps INTEGER NOT NULL DEFAULT -1;

UPDATE job SET held_us = (SELECT coalesce(sum(max(0, ended_us - started_us)), 0) FROM attempt WHERE attempt.job = job.id AND ended_us > 0);
