-- Count the events that have been ready to be claimed for longer than a grace.
--   @types text[] · @grace interval
-- The target of an event that is not delayed is when it can be claimed.
SELECT count(*), min(missed.target), max(missed.target)
FROM (
    SELECT coalesce(q.delayed_from, q.available_at) AS target
    FROM (SELECT DISTINCT t.name FROM pg_catalog.unnest(@types::text[]) AS t (name)) t
    CROSS JOIN LATERAL pg_catalog.unnest(:lanes_of_t) AS of_type (lane)
    CROSS JOIN LATERAL (
        SELECT o.delayed_from, o.available_at
        FROM :"schema".queue o
        WHERE o.event_type = t.name AND o.lane = of_type.lane AND o.available_at < now() - @grace::interval
        OFFSET 0
    ) q
) missed
