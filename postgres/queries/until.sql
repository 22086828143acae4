-- How long it is until the next event can be claimed, in microseconds; no row when none is pending.
--   @types text[]
SELECT (extract(epoch FROM e.available_at - clock_timestamp()) * 1000000)::bigint
FROM :"schema".events e
WHERE e.available_at IS NOT NULL
    AND e.event_type = ANY (@types::text[])
ORDER BY e.available_at, e.id
LIMIT 1
