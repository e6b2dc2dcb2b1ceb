-- 0006: ended jobs by how they ended, to be counted at a start without reading them. A query must use the same words
-- (SQL_JOB_ENDED in store_int.h).

CREATE INDEX job_ended ON job (status) WHERE status = 'completed' OR status = 'failed' OR status = 'stopped';
