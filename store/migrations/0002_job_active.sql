-- 0002: the index of unfinished jobs, without a list.
--
-- SQLite makes a temporary tree of an IN list of three or more for every row that it looks at, and it looks at this
-- condition at every change of a job. The same as comparisons costs nothing; queries must use the same words
-- (SQL_JOB_ACTIVE in store_int.h).

DROP INDEX job_active;
CREATE INDEX job_active ON job (id) WHERE status <> 'completed' AND status <> 'failed' AND status <> 'stopped';
