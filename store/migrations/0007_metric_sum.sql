-- The summary of a metric is that of one rank of one attempt, and says of which: nothing is mixed over ranks and attempts. NULL = unknown, as the
-- series was removed before this; what is still there is summed up again.
ALTER TABLE metric_sum ADD COLUMN attempt INTEGER;
ALTER TABLE metric_sum ADD COLUMN rank INTEGER;
ALTER TABLE metric_sum ADD COLUMN ranks INTEGER;
INSERT OR IGNORE INTO metric_dirty SELECT DISTINCT job FROM metric_series;
