-- Count the stalled series, by type and last error.
--   @looked integer (the most series of a type to read) · @all integer (the same for all types together)
-- Returns a row for each type and error: the type, the error (empty if no program with the handler has tried), how many series were
-- read, and how many of these still stall. Of those it returns since when the first has stalled, and when the first is tried again.
WITH chosen AS MATERIALIZED (
    SELECT t.name, n.series_id, n.used_unit, n.used_key, n.last_error, n.since, n.retry_at
    FROM pg_catalog.unnest(:stalled_types) AS t (name)
    CROSS JOIN LATERAL (
        SELECT x.series_id, x.used_unit, x.used_key, x.last_error, x.since, x.retry_at
        FROM :"schema".unplanned x
        WHERE x.event_type = t.name
        ORDER BY x.retry_at, x.user_id
        LIMIT @looked
    ) n
    LIMIT @all
)
SELECT c.name, coalesce(c.last_error, ''), count(*), count(*) FILTER (WHERE s.stalls),
    min(c.since) FILTER (WHERE s.stalls), min(c.retry_at) FILTER (WHERE s.stalls)
FROM chosen c
LEFT JOIN LATERAL (
    SELECT true AS stalls
    FROM :"schema".series x
    WHERE x.id = c.series_id AND x.event_id IS NULL AND x.used_unit = c.used_unit AND x.used_key = c.used_key
    OFFSET 0
) s ON true
GROUP BY c.name, c.last_error
