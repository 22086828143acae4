-- Lock a user's events that were never claimed, of series that the transaction has locked, in the order of their ids. Waits for a
-- claim in progress, whose events are left out.
--   @id uuid
SELECT :event
FROM :"schema".series s
JOIN :"schema".queue q ON q.event_id = s.event_id
CROSS JOIN LATERAL (SELECT * FROM :"schema".pending_events p WHERE p.id = q.event_id) e
WHERE s.open_user_id = @id AND s.claim_count = 0
ORDER BY q.event_id
FOR UPDATE OF q
