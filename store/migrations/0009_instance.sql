-- 0009: what the administrator has set for instance types; what is shipped is not stored.

CREATE TABLE instance (
	name TEXT PRIMARY KEY, -- without "ml."
	own TEXT NOT NULL      -- JSON object
);
