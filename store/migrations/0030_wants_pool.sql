-- 0030: the warm pool that a job waits for until its first attempt (warm_pool.pool).

ALTER TABLE job ADD COLUMN wants_pool INTEGER NOT NULL DEFAULT 0; -- 0 none
