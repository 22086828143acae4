-- A page of the pending events of a type that have consulted the same, in order of creation.
--   @type text · @consulted text · @after uuid · @limit integer
-- OFFSET 0 keeps the planner from reading whole tables for the join. Locks nothing.
SELECT :event
FROM (
    SELECT q.event_id
    FROM :"schema".queue q
    WHERE q.event_type = @type::text AND q.consulted = @consulted::text AND q.event_id > @after::uuid
    ORDER BY q.event_id
    LIMIT @limit
) q
CROSS JOIN LATERAL (SELECT * FROM :"schema".pending_events e WHERE e.id = q.event_id OFFSET 0) e
ORDER BY e.id
