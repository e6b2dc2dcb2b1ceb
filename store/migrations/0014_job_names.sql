-- 0014: search entries of jobs that were given another name after their entry was written.

UPDATE job_ix SET name = (SELECT name FROM job WHERE job.id = job_ix.job)
	WHERE name IS NOT (SELECT name FROM job WHERE job.id = job_ix.job);
