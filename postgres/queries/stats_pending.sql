-- Count the pending events on a part of the pages, by type and by quarter hour.
--   @percent real (of the pages) · @from timestamptz · @until timestamptz
-- Returns the type, the place of the quarter hour after @from, and the number of events. The place is -1 for events that are not available
-- between @from and @until.
-- REPEATABLE reads the same pages each time, so that an estimate does not jump without a reason.
SELECT q.event_type,
    CASE WHEN q.available_at >= @from::timestamptz AND q.available_at < @until::timestamptz
        THEN floor(extract(epoch FROM q.available_at - @from::timestamptz)::float8 / 900::float8)::integer ELSE -1 END AS place,
    count(*)
FROM :"schema".queue q TABLESAMPLE SYSTEM (@percent::real) REPEATABLE (0)
GROUP BY q.event_type, place
