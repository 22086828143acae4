-- Count the pending events of which an attempt has failed, by type and last error.
--   @limit integer (the most events to count of a type) · @looked integer (the most events of a type whose errors are read)
--   @all integer (the same for all types together)
-- Returns a row for each type and error: the type, how many of its events were counted, the error, and how many events with this error
-- were read. Of those it returns the first target, and the first time at which one is available. Both are NULL if none was read.
WITH counted AS MATERIALIZED (
    SELECT t.name, few.n
    FROM pg_catalog.unnest(:queued_types) AS t (name)
    CROSS JOIN LATERAL (
        SELECT count(*) AS n
        FROM (
            SELECT FROM :"schema".queue q
            WHERE q.event_type = t.name AND q.retry_count IS NOT NULL
            ORDER BY q.available_at, q.event_id
            LIMIT @limit
        ) q
    ) few
    WHERE few.n > 0
), errors AS MATERIALIZED (
    SELECT c.name, q.available_at, coalesce(q.delayed_from, q.available_at) AS target, s.last_error
    FROM counted c
    CROSS JOIN LATERAL (
        SELECT q.series_id, q.available_at, q.delayed_from
        FROM :"schema".queue q
        WHERE q.event_type = c.name AND q.retry_count IS NOT NULL
        ORDER BY q.available_at, q.event_id
        LIMIT @looked
    ) q
    CROSS JOIN LATERAL (SELECT x.last_error FROM :"schema".series x WHERE x.id = q.series_id OFFSET 0) s
    LIMIT @all
)
SELECT c.name, c.n, coalesce(e.last_error, ''), count(*) FILTER (WHERE e.name IS NOT NULL), min(e.target), min(e.available_at)
FROM counted c
LEFT JOIN errors e ON e.name = c.name
GROUP BY c.name, c.n, e.last_error
