-- 0028: what a pool cost in its life, who set its time, and why it and its parts ended.

ALTER TABLE pool ADD COLUMN cause_text TEXT NOT NULL DEFAULT '';
ALTER TABLE pool ADD COLUMN kept_by TEXT NOT NULL DEFAULT '';
ALTER TABLE pool ADD COLUMN idle_uusd INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pool ADD COLUMN ended_parts TEXT NOT NULL DEFAULT ''; -- JSON

-- The pool events of a job are those that name it: as "job", or as the one that left the pool. SQLite refuses
-- json_extract in an index of a schema that it does not trust. A text in JSON cannot have '"job":'.
CREATE INDEX event_pool_job ON event (CAST(substr(data, instr(data, '"job":') + 6) AS INTEGER), id)
	WHERE job = 0 AND type GLOB 'pool_*';
CREATE INDEX event_pool_left ON event (CAST(substr(data, instr(data, '"left_by":') + 10) AS INTEGER), id)
	WHERE job = 0 AND type GLOB 'pool_*';
