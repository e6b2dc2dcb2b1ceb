-- 0015: what a job's next attempt begins with, when that is not what its specification says: attempt:2@1200 is step 1200 of what its attempt 2 left, attempt:2 all of that. While a
-- requeue is wanted it is what was asked for: start, or step:1200.

ALTER TABLE job ADD COLUMN begins TEXT;
