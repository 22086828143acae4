-- What is pending, by type: all of it, or what a part of the pages holds.
--   @percent real, of the pages to be read
SELECT q.event_type, 'PENDING', count(*) FROM :"schema".queue q TABLESAMPLE SYSTEM (@percent::real) GROUP BY q.event_type
