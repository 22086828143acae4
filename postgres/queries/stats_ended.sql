-- Count the ended events on a part of the pages, by type and status.
--   @percent real (of the pages)
SELECT h.event_type, h.status, count(*)
FROM :"schema".history h TABLESAMPLE SYSTEM (@percent::real) REPEATABLE (0)
GROUP BY h.event_type, h.status
