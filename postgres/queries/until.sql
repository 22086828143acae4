-- How long it is until the next event can be claimed, in microseconds; no row when none is pending.
--   @types text[] · @mark timestamptz, as for claims; types that are paused are left out
SELECT (extract(epoch FROM q.available_at - clock_timestamp()) * 1000000)::bigint
FROM :"schema".queue q
WHERE q.available_at >= CASE WHEN @mark::timestamptz <= now() THEN @mark::timestamptz ELSE '-infinity' END
    AND :types
ORDER BY q.available_at, q.event_id
LIMIT 1
