-- 0010: nodes that are kept for a time: reservations of a queue, and maintenance windows.

CREATE TABLE reservation (
	name TEXT PRIMARY KEY,
	state TEXT NOT NULL,  -- planned, active, ended
	queue TEXT NOT NULL,  -- whose jobs may use the nodes; "" nobody's: maintenance
	nodes TEXT NOT NULL,  -- names, a space between them
	reason TEXT NOT NULL,
	owner TEXT NOT NULL,  -- who made it
	from_us INTEGER NOT NULL,
	to_us INTEGER NOT NULL,
	created_us INTEGER NOT NULL
);
