-- 0021: checkpoints of jobs, as agents report them while a job runs. A checkpoint has one part for each node that wrote some of it.

CREATE TABLE checkpoint (
	job INTEGER NOT NULL, number INTEGER NOT NULL, -- counted for each job, from 1
	attempt INTEGER NOT NULL,
	step INTEGER NOT NULL,          -- -1 unknown
	name TEXT NOT NULL,             -- of the entry in the folder of checkpoints
	format TEXT NOT NULL, step_by TEXT NOT NULL,
	at_us INTEGER NOT NULL,         -- when its last part was complete
	save_ms INTEGER NOT NULL,       -- how long the program wrote it
	loss TEXT,                      -- the last one reported up to that step; NULL none
	shards INTEGER NOT NULL,        -- parts that the program names; 0: it says nothing
	expected INTEGER NOT NULL,      -- parts that the checkpoints before it had
	nodes INTEGER NOT NULL,         -- of its attempt
	parent INTEGER NOT NULL,        -- number of the checkpoint that its attempt began with; 0 none
	complete INTEGER NOT NULL, pinned INTEGER NOT NULL, set_aside INTEGER NOT NULL,
	PRIMARY KEY (job, number)) WITHOUT ROWID;

CREATE TABLE checkpoint_part (
	job INTEGER NOT NULL, number INTEGER NOT NULL, part INTEGER NOT NULL,
	node TEXT NOT NULL, node_rank INTEGER NOT NULL,
	attempt INTEGER NOT NULL, seq INTEGER NOT NULL, -- the agent's name for it
	state TEXT NOT NULL,            -- copying verified torn gone
	held INTEGER NOT NULL,          -- 1: its node has a copy
	digest TEXT NOT NULL, uri TEXT NOT NULL, -- blob: in hearthd's store
	size_bytes INTEGER NOT NULL, files INTEGER NOT NULL,
	text TEXT,                      -- why it is torn or gone
	PRIMARY KEY (job, number, part)) WITHOUT ROWID;
