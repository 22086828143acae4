-- A user's open events that were claimed before, in order of id. They keep their target. The transaction has locked their series.
--   @id uuid
-- Leases are read once, and only if an open event is not in the queue.
WITH mine AS MATERIALIZED (
    SELECT s.event_id, s.claim_count, EXISTS (SELECT FROM :"schema".queue q WHERE q.event_id = s.event_id) AS pending
    FROM :"schema".series s
    WHERE s.open_user_id = @id
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
    WHERE p.id = ANY (ARRAY (SELECT mine.event_id FROM mine WHERE mine.pending AND mine.claim_count > 0))
    UNION ALL
    SELECT p.*
    FROM claimed
    CROSS JOIN LATERAL (SELECT * FROM :"schema".processing_events p WHERE p.id = ANY (claimed.event_ids) OFFSET 0) p
) e
ORDER BY e.id
