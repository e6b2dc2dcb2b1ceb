-- 0017: what becomes of what runs when a budget is used up: hold (it goes on, nothing more is started), end.

ALTER TABLE budget ADD COLUMN action TEXT NOT NULL DEFAULT 'hold';
