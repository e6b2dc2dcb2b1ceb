-- 0013: what the scheduler was told and what it decided, as text (docs/spec/12-history.md). A part begins when hearthd begins; the oldest go.

CREATE TABLE history (
	id INTEGER PRIMARY KEY,
	part INTEGER NOT NULL,
	at_us INTEGER NOT NULL, -- of its first line
	bytes INTEGER NOT NULL,
	text TEXT NOT NULL      -- whole lines
);
CREATE INDEX history_part ON history (part, at_us, bytes);
