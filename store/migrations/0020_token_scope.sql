-- 0020: tokens of users and sessions of browsers: what they may do, whose account they carry, which token made them, and their last use.

ALTER TABLE token ADD COLUMN scope TEXT;
ALTER TABLE token ADD COLUMN account TEXT;
ALTER TABLE token ADD COLUMN note TEXT;
ALTER TABLE token ADD COLUMN made_with TEXT;
ALTER TABLE token ADD COLUMN seen_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE token ADD COLUMN seen_from TEXT;
