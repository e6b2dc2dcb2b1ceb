-- 0027: a beginning that a user asked for. hearthd takes no other one in its place.

ALTER TABLE job ADD COLUMN begins_asked INTEGER NOT NULL DEFAULT 0;
