-- How long it is until the next event can be claimed, in microseconds; no row when no event is pending.
--   @types text[] · @mark timestamptz, as for claims; types that are paused are left out
SELECT (extract(epoch FROM min(next.available_at) - clock_timestamp())::float8 * 1000000::float8)::bigint
FROM pg_catalog.unnest(:types) AS t (name)
CROSS JOIN LATERAL (
    SELECT q.available_at
    FROM :"schema".queue q
    WHERE q.event_type = t.name
        AND q.available_at >= CASE WHEN @mark::timestamptz <= now() THEN @mark::timestamptz ELSE '-infinity' END
    ORDER BY q.available_at, q.event_id
    LIMIT 1
) next
HAVING count(*) > 0
