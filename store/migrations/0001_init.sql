-- 0001: records, events, series and the projections for search.
--
-- STRICT stands in comments, which the migrator opens where the library knows the word. Ids are given by the
-- state thread, never by SQLite, and never used twice. Times are microseconds since 1970, 0 = none.
--
-- What a submit writes in its acknowledged transaction (event, job, job_spec, and a tag when there is one) has no index but
-- those that grow at their end; what needs indexes in random order is in the projections at the bottom, written behind.

CREATE TABLE setting (
	key TEXT PRIMARY KEY,
	value TEXT NOT NULL
) WITHOUT ROWID /*, STRICT*/;

CREATE TABLE event (
	id INTEGER PRIMARY KEY,
	job INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	at_us INTEGER NOT NULL,
	type TEXT NOT NULL,
	data TEXT NOT NULL
) /*STRICT*/;
CREATE INDEX event_job ON event (job, id);

CREATE TABLE job (
	id INTEGER PRIMARY KEY,
	name TEXT,
	owner TEXT,
	experiment TEXT,
	notes TEXT,
	status TEXT NOT NULL,
	priority INTEGER NOT NULL,
	queue TEXT,
	bundle TEXT,
	created_us INTEGER NOT NULL,
	queued_us INTEGER NOT NULL,
	started_us INTEGER NOT NULL,
	ended_us INTEGER NOT NULL,
	exit_code INTEGER NOT NULL,
	reason TEXT,
	wanted TEXT,
	attempts INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	idem_key TEXT,
	idem_digest TEXT,
	pinned INTEGER NOT NULL,
	deleted INTEGER NOT NULL,
	nodes INTEGER NOT NULL,
	gpus INTEGER NOT NULL,
	cleanup TEXT
) /*STRICT*/;
-- Start reads the unfinished jobs only, however many have ended.
CREATE INDEX job_active ON job (id) WHERE status NOT IN ('completed', 'failed', 'stopped');

-- Beside job, so that a change of state does not write the specification again.
CREATE TABLE job_spec (
	id INTEGER PRIMARY KEY,
	spec TEXT,
	run TEXT
) /*STRICT*/;

CREATE TABLE attempt (
	job INTEGER NOT NULL,
	number INTEGER NOT NULL,
	epoch INTEGER NOT NULL,
	state TEXT NOT NULL,
	outcome TEXT,
	cls TEXT,
	reason TEXT,
	cause TEXT,
	launch_id TEXT,
	token TEXT,
	placement TEXT,
	resumed_from_step INTEGER NOT NULL,
	resumed_from TEXT,
	exit_code INTEGER NOT NULL,
	signal INTEGER NOT NULL,
	started_us INTEGER NOT NULL,
	ended_us INTEGER NOT NULL,
	phases TEXT,
	master_port INTEGER NOT NULL,
	PRIMARY KEY (job, number)
) WITHOUT ROWID /*, STRICT*/;

CREATE TABLE rank (
	job INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	rank INTEGER NOT NULL,
	node TEXT,
	node_rank INTEGER NOT NULL,
	local_rank INTEGER NOT NULL,
	state TEXT NOT NULL,
	exit_code INTEGER NOT NULL,
	signal INTEGER NOT NULL,
	oom INTEGER NOT NULL,
	pid INTEGER NOT NULL,
	started_us INTEGER NOT NULL,
	ended_us INTEGER NOT NULL,
	text TEXT,
	PRIMARY KEY (job, attempt, rank)
) WITHOUT ROWID /*, STRICT*/;

CREATE TABLE node (
	id INTEGER PRIMARY KEY,
	name TEXT NOT NULL,
	address TEXT,
	state TEXT NOT NULL,
	reason TEXT,
	cert_fingerprint TEXT,
	inventory TEXT,
	joined_us INTEGER NOT NULL,
	seen_us INTEGER NOT NULL,
	drain INTEGER NOT NULL
) /*STRICT*/;

-- '' stands for NULL in digest and uri: both belong to the key, so that a report that comes twice is one row.
CREATE TABLE artifact (
	job INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	kind TEXT NOT NULL,
	node TEXT NOT NULL,
	digest TEXT NOT NULL,
	uri TEXT NOT NULL,
	size_bytes INTEGER NOT NULL,
	files INTEGER NOT NULL,
	at_us INTEGER NOT NULL,
	PRIMARY KEY (job, attempt, kind, node, digest, uri)
) WITHOUT ROWID /*, STRICT*/;

-- Laid over the tags of the specification; value NULL = removed.
CREATE TABLE tag (
	job INTEGER NOT NULL,
	key TEXT NOT NULL,
	value TEXT,
	PRIMARY KEY (job, key)
) WITHOUT ROWID /*, STRICT*/;

CREATE TABLE token (
	id TEXT PRIMARY KEY,
	kind TEXT NOT NULL,
	secret_hash TEXT NOT NULL,
	owner TEXT,
	job INTEGER NOT NULL,
	created_us INTEGER NOT NULL,
	expires_us INTEGER NOT NULL,
	used_us INTEGER NOT NULL,
	used_by TEXT
) WITHOUT ROWID /*, STRICT*/;
CREATE INDEX token_secret ON token (secret_hash);

CREATE TABLE run_info (
	job INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	node TEXT NOT NULL,
	kind TEXT NOT NULL,
	text TEXT,
	PRIMARY KEY (job, attempt, node, kind)
) WITHOUT ROWID /*, STRICT*/;

-- A series is what one node reports under one name for one rank of one attempt; seq is the last batch of that node that
-- brought points. last_bits, min_bits, max_bits: IEEE 754 bits (SQLite would turn NaN into NULL).
CREATE TABLE metric_series (
	id INTEGER PRIMARY KEY,
	job INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	name TEXT NOT NULL,
	rank INTEGER NOT NULL,
	node TEXT NOT NULL,
	seq INTEGER NOT NULL,
	points INTEGER NOT NULL,
	sealed INTEGER NOT NULL, -- points in chunks that are not merged any more
	open INTEGER NOT NULL,   -- chunks behind them
	last_bits INTEGER NOT NULL,
	min_bits INTEGER NOT NULL,
	max_bits INTEGER NOT NULL,
	last_step INTEGER NOT NULL,
	last_us INTEGER NOT NULL,
	UNIQUE (job, attempt, name, rank, node)
) /*STRICT*/;

CREATE TABLE metric_chunk (
	series INTEGER NOT NULL,
	first INTEGER NOT NULL, -- points of the series before this chunk
	points INTEGER NOT NULL,
	data BLOB NOT NULL,     -- codec.h
	PRIMARY KEY (series, first)
) WITHOUT ROWID /*, STRICT*/;

-- Jobs whose metric summary is behind its series.
CREATE TABLE metric_dirty (
	job INTEGER PRIMARY KEY
) /*STRICT*/;

-- What has been taken away by rm or by retention (bits of enum store_keep).
CREATE TABLE dropped (
	job INTEGER PRIMARY KEY,
	what INTEGER NOT NULL,
	at_us INTEGER NOT NULL
) /*STRICT*/;

-- ---- projections: written behind, rebuildable --------------------------------------------------------------

-- One row: everything up to this event is in the tables below.
CREATE TABLE projected (
	one INTEGER PRIMARY KEY CHECK (one = 1),
	event INTEGER NOT NULL
) /*STRICT*/;
INSERT INTO projected VALUES (1, 0);

CREATE TABLE job_ix (
	job INTEGER PRIMARY KEY,
	owner TEXT,
	name TEXT,
	experiment TEXT
) /*STRICT*/;
CREATE INDEX job_ix_owner ON job_ix (owner, job);
CREATE INDEX job_ix_name ON job_ix (name, job);
CREATE INDEX job_ix_experiment ON job_ix (experiment, job) WHERE experiment <> '';

-- One row a hyperparameter, in the table of its type; texts are strings, true, false, lists and objects as in the specification. A job's own
-- hyperparameters are read from its specification: these are for finding jobs only, so one tree each is enough, and filled in its order.
CREATE TABLE hp_num (
	name TEXT NOT NULL,
	num REAL NOT NULL,
	job INTEGER NOT NULL,
	PRIMARY KEY (name, num, job)
) WITHOUT ROWID /*, STRICT*/;
CREATE TABLE hp_text (
	name TEXT NOT NULL,
	text TEXT NOT NULL,
	job INTEGER NOT NULL,
	PRIMARY KEY (name, text, job)
) WITHOUT ROWID /*, STRICT*/;

CREATE TABLE tag_ix (
	job INTEGER NOT NULL,
	key TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (job, key)
) WITHOUT ROWID /*, STRICT*/;
CREATE INDEX tag_ix_value ON tag_ix (key, value, job);

-- NULL = not a number.
CREATE TABLE metric_sum (
	job INTEGER NOT NULL,
	name TEXT NOT NULL,
	last REAL,
	min REAL,
	max REAL,
	points INTEGER NOT NULL,
	step INTEGER,
	PRIMARY KEY (job, name)
) WITHOUT ROWID /*, STRICT*/;
CREATE INDEX metric_sum_last ON metric_sum (name, last, job);

-- Ended jobs that still hold something that can expire.
CREATE TABLE holding (
	job INTEGER PRIMARY KEY,
	what INTEGER NOT NULL,
	ended_us INTEGER NOT NULL
) /*STRICT*/;
CREATE INDEX holding_due ON holding (ended_us);
