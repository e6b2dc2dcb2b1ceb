-- 0026: warm pools, what each job left in one, and the pool that an attempt was placed in.

CREATE TABLE pool (
	id INTEGER PRIMARY KEY,         -- from the numbers of jobs
	name TEXT NOT NULL, owner TEXT NOT NULL, queue TEXT NOT NULL,
	state TEXT NOT NULL,            -- available in_use terminated
	cause TEXT NOT NULL,            -- of its end
	made_by INTEGER NOT NULL, last_job INTEGER NOT NULL,
	exclusive INTEGER NOT NULL,
	keep_alive_s INTEGER NOT NULL,
	made_us INTEGER NOT NULL, idle_us INTEGER NOT NULL, expires_us INTEGER NOT NULL,
	chain_us INTEGER NOT NULL,      -- when its chain of jobs began
	ended_us INTEGER NOT NULL,      -- 0: it lives
	environment TEXT NOT NULL, parts TEXT NOT NULL); -- JSON

CREATE INDEX pool_ended ON pool (ended_us);

CREATE TABLE pool_job (
	job INTEGER PRIMARY KEY,        -- that left it
	pool INTEGER NOT NULL,
	status TEXT NOT NULL,           -- available reused terminated
	left_us INTEGER NOT NULL, until_us INTEGER NOT NULL, -- 0: it waits still
	reused_by INTEGER NOT NULL,
	account TEXT NOT NULL,          -- that pays for the idle time
	price_uusd INTEGER NOT NULL,    -- of an hour, since since_us
	since_us INTEGER NOT NULL,
	idle_uusd INTEGER NOT NULL);    -- what it cost until then

CREATE INDEX pool_job_until ON pool_job (until_us);
CREATE INDEX pool_job_pool ON pool_job (pool);

ALTER TABLE attempt ADD COLUMN pool TEXT NOT NULL DEFAULT '';
