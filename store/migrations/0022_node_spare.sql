-- 0022: a node that is kept to replace nodes of jobs; it takes no other jobs.

ALTER TABLE node ADD COLUMN spare INTEGER NOT NULL DEFAULT 0;
