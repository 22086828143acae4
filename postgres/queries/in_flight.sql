-- A user's open events that were claimed before, of series that the transaction has locked: they keep their target whatever happens.
-- A lease is looked for where an event is not in the queue.
--   @id uuid
SELECT :event
FROM (
    SELECT p.*
    FROM :"schema".series s
    JOIN :"schema".queue q ON q.event_id = s.event_id
    JOIN :"schema".pending_events p ON p.id = q.event_id
    WHERE s.user_id = @id
        AND s.claim_count > 0
    UNION ALL
    SELECT p.*
    FROM :"schema".series s
    CROSS JOIN LATERAL (SELECT * FROM :"schema".processing_events p WHERE p.id = s.event_id OFFSET 0) p
    WHERE s.user_id = @id
        AND NOT EXISTS (SELECT FROM :"schema".queue q WHERE q.event_id = s.event_id)
) e
ORDER BY e.id
