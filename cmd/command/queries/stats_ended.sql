-- What has ended, by type and status: all of it, or what a part of the pages holds.
--   @percent real, of the pages to be read
SELECT h.event_type, h.status, count(*) FROM :"schema".history h TABLESAMPLE SYSTEM (@percent::real) GROUP BY h.event_type, h.status
