-- Count some pending events, by time zone.
--   @percent real (of the pages of the queue) · @mask integer (2^n - 1 for one of 2^n events of these pages) · @limit integer
-- It takes few events of many pages, because events on one page are often of one zone. It looks up each event on its own.
SELECT e.target_timezone, count(*)
FROM (
    SELECT q.event_id
    FROM :"schema".queue q TABLESAMPLE SYSTEM (@percent::real) REPEATABLE (0)
    WHERE uuid_hash(q.event_id) & @mask::integer = 0
    LIMIT @limit
) chosen
CROSS JOIN LATERAL (SELECT p.target_timezone FROM :"schema".pending_events p WHERE p.id = chosen.event_id OFFSET 0) e
GROUP BY e.target_timezone
