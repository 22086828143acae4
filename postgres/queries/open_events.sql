-- The open events of users, of some types or of all, in the order of the users and then of the events. Locks nothing.
--   @ids uuid[] · @types text[] (NULL for all types)
-- OFFSET 0 makes the planner look up the series user by user; a search by type would read the series of all users. Leases are read once,
-- and only if an open event is not in the queue.
WITH mine AS MATERIALIZED (
    SELECT s.event_id, EXISTS (SELECT FROM :"schema".queue q WHERE q.event_id = s.event_id) AS pending
    FROM pg_catalog.unnest(@ids::uuid[]) AS n (id)
    CROSS JOIN LATERAL (
        SELECT o.event_id, o.event_type
        FROM :"schema".series o
        WHERE o.open_user_id = n.id
        OFFSET 0
    ) s
    WHERE @types::text[] IS NULL OR s.event_type = ANY (@types::text[])
), claimed AS MATERIALIZED (
    SELECT pg_catalog.array_agg(mine.event_id) AS event_ids
    FROM mine
    WHERE NOT mine.pending
    HAVING count(*) > 0
)
SELECT :event
FROM (
    SELECT p.*
    FROM :"schema".pending_events p
    WHERE p.id = ANY (ARRAY (SELECT mine.event_id FROM mine WHERE mine.pending))
    UNION ALL
    SELECT p.*
    FROM claimed
    CROSS JOIN LATERAL (SELECT * FROM :"schema".processing_events p WHERE p.id = ANY (claimed.event_ids) OFFSET 0) p
) e
ORDER BY e.user_id, e.id
