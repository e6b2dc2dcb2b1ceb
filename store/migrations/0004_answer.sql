-- 0004: answers to requests with an idempotency key, beside those that made a job (the job's row has those).

CREATE TABLE answer (
	id INTEGER PRIMARY KEY,
	key TEXT NOT NULL UNIQUE, -- USER:KEY
	digest TEXT NOT NULL,     -- SHA-256 of the request
	status INTEGER NOT NULL,
	body TEXT NOT NULL,
	at_us INTEGER NOT NULL
);
CREATE INDEX answer_at ON answer (at_us);
