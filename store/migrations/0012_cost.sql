-- 0012: what attempts cost, and what queues and users may spend. Prices are of the time when the attempt began; money is in millionths of a US dollar.

ALTER TABLE attempt ADD COLUMN price_uusd INTEGER NOT NULL DEFAULT 0; -- an hour, of all that it held; 0 not known
ALTER TABLE attempt ADD COLUMN account TEXT NOT NULL DEFAULT '';      -- who pays: QUEUE/@OWNER
CREATE INDEX attempt_priced ON attempt (ended_us, started_us, account, price_uusd) WHERE price_uusd > 0;

CREATE TABLE budget (
	path TEXT PRIMARY KEY, -- QUEUE or QUEUE/@OWNER
	uusd INTEGER NOT NULL,
	period TEXT NOT NULL   -- day, week, month
);
