-- 0019: retention reads what is due, and nothing else: an index for each kind of data (bits of enum store_keep). Pinned jobs are not in the list.

DELETE FROM holding WHERE job IN (SELECT id FROM job WHERE pinned <> 0);
DROP INDEX holding_due;
CREATE INDEX holding_logs ON holding (ended_us) WHERE what & 1;
CREATE INDEX holding_bundle ON holding (ended_us) WHERE what & 2;
CREATE INDEX holding_metrics ON holding (ended_us) WHERE what & 4;
CREATE INDEX holding_artifacts ON holding (ended_us) WHERE what & 8;
