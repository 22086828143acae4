-- Count the pending events that become available in a range, by quarter hour.
--   @from timestamptz · @until timestamptz · @limit integer (the most events to read)
-- Returns the place of the quarter hour after @from, and the number of events.
SELECT floor(extract(epoch FROM due.available_at - @from::timestamptz)::float8 / 900::float8)::integer AS place, count(*)
FROM (
    SELECT q.available_at
    FROM pg_catalog.unnest(:queued_types) AS t (name)
    CROSS JOIN LATERAL pg_catalog.unnest(:lanes_of_t) AS of_type (lane)
    CROSS JOIN LATERAL (
        SELECT q.available_at
        FROM :"schema".queue q
        WHERE q.event_type = t.name AND q.lane = of_type.lane AND q.available_at >= @from AND q.available_at < @until
        ORDER BY q.available_at, q.event_id
        LIMIT @limit
    ) q
    LIMIT @limit
) due
GROUP BY place
