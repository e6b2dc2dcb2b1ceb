-- 0025: what an attempt lost is known when the next one begins, and follows from the rows of both: no column holds it.

ALTER TABLE attempt DROP COLUMN lost_steps;
