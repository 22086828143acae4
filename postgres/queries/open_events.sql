-- The open events of users, of some types or of all, in the order of the users and then of the events. Locks nothing.
--   @ids uuid[] · @types text[] (NULL for all types)
-- OFFSET 0 makes the planner look up the series user by user; a search by type would read the series of all users. Each series and each
-- row of the queue is looked up once, so the pending events are not read from their view. Leases are read once, and only if an open event
-- is not in the queue.
WITH mine AS MATERIALIZED (
    SELECT s.*, q.event_id IS NOT NULL AS pending, q.available_at, q.consulted
    FROM pg_catalog.unnest(@ids::uuid[]) AS n (id)
    CROSS JOIN LATERAL (
        SELECT o.*
        FROM :"schema".series o
        WHERE o.open_user_id = n.id
        OFFSET 0
    ) s
    LEFT JOIN LATERAL (SELECT x.* FROM :"schema".queue x WHERE x.event_id = s.event_id OFFSET 0) q ON true
    WHERE @types::text[] IS NULL OR s.event_type = ANY (@types::text[])
), claimed AS MATERIALIZED (
    SELECT pg_catalog.array_agg(mine.event_id) AS event_ids
    FROM mine
    WHERE NOT mine.pending
    HAVING count(*) > 0
)
SELECT :queued_event
FROM mine s
CROSS JOIN LATERAL (SELECT s.available_at, s.consulted) q
WHERE s.pending
UNION ALL
SELECT :event
FROM claimed
CROSS JOIN LATERAL (SELECT * FROM :"schema".processing_events p WHERE p.id = ANY (claimed.event_ids) OFFSET 0) e
ORDER BY user_id, event_id
