-- 0018: the Unix account that runs a job, apart from its owner; NULL in older rows: the account with the owner's name.

ALTER TABLE job ADD COLUMN run_as TEXT;
