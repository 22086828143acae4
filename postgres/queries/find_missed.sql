-- Find events that have been ready to be claimed for longer than a grace. The event that has been ready longest comes first.
--   @types text[] · @grace interval · @limit integer
-- For each lane of each type at most the limit is read from the index of the queue. OFFSET 0 makes the planner look up each event by its id.
WITH oldest AS MATERIALIZED (
    SELECT of_lane.available_at, of_lane.event_id
    FROM (SELECT DISTINCT t.name FROM pg_catalog.unnest(@types::text[]) AS t (name)) t
    CROSS JOIN LATERAL pg_catalog.unnest(:lanes_of_t) AS of_type (lane)
    CROSS JOIN LATERAL (
        SELECT q.available_at, q.event_id
        FROM :"schema".queue q
        WHERE q.event_type = t.name AND q.lane = of_type.lane AND q.available_at < now() - @grace::interval
        ORDER BY q.available_at, q.event_id
        LIMIT @limit
    ) of_lane
    ORDER BY of_lane.available_at, of_lane.event_id
    LIMIT @limit
)
SELECT :event
FROM oldest
CROSS JOIN LATERAL (SELECT * FROM :"schema".pending_events p WHERE p.id = oldest.event_id OFFSET 0) e
ORDER BY e.available_at, e.id
