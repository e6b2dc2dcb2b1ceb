-- 0029: what a queue, or a user in one, may keep idle in warm pools.

ALTER TABLE queue ADD COLUMN warm_gpus INTEGER NOT NULL DEFAULT 0; -- 0 no limit
ALTER TABLE queue ADD COLUMN warm_nodes INTEGER NOT NULL DEFAULT 0;
