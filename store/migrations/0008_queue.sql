-- 0008: queues and quotas, and what each queue and user has used. Paths: "research/vision", "research/@ada" (a user in a queue).

CREATE TABLE queue (
	path TEXT PRIMARY KEY,
	is_queue INTEGER NOT NULL,     -- 1: jobs may name it, or it gives a user a weight; 0: it has a quota only
	weight_milli INTEGER NOT NULL, -- thousandths
	quota_gpus INTEGER NOT NULL,   -- 0 none
	borrow INTEGER NOT NULL
);
CREATE TABLE usage (
	path TEXT PRIMARY KEY,
	gpu_ms INTEGER NOT NULL, -- GPU milliseconds, decayed to at_us
	at_us INTEGER NOT NULL
);
