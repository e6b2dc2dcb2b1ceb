-- 0016: how long a job ran: from its first rank's start until what its ranks did was settled, of all its attempts. So a list of jobs has it without a look at their attempts.
-- What is on record already is read out of the attempts' phases, as text: an SQLite without JSON functions is allowed here. A number is cut off where it ends.

ALTER TABLE job ADD COLUMN ran_us INTEGER NOT NULL DEFAULT 0;        -- of attempts whose program has ended
ALTER TABLE job ADD COLUMN runs_since_us INTEGER NOT NULL DEFAULT 0; -- of the present one; 0: no program runs

CREATE TEMP TABLE ran AS
	SELECT job, CAST(CAST(substr(phases, began + 31) AS REAL) AS INTEGER) AS began,
		CASE settled WHEN 0 THEN 0 ELSE CAST(CAST(substr(phases, settled + 33) AS REAL) AS INTEGER) END AS settled
	FROM (SELECT job, phases, instr(phases, '{"name":"running","started_us":') AS began,
		instr(phases, '{"name":"uploading","started_us":') AS settled FROM attempt WHERE phases IS NOT NULL)
	WHERE began > 0;
CREATE INDEX temp.ran_job ON ran (job);
UPDATE job SET
	ran_us = (SELECT coalesce(sum(max(0, settled - began)), 0) FROM temp.ran WHERE ran.job = job.id AND settled > 0),
	runs_since_us = (SELECT coalesce(max(began), 0) FROM temp.ran WHERE ran.job = job.id AND settled = 0)
	WHERE id IN (SELECT job FROM temp.ran);
DROP TABLE temp.ran;
