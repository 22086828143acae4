-- Lock the pending events of series that the transaction has locked. Waits for a claim in progress, whose events are then in its lease.
--   @id uuid (of the user)
SELECT q.event_id
FROM :"schema".series s
JOIN :"schema".queue q ON q.event_id = s.event_id
WHERE s.open_user_id = @id
ORDER BY q.event_id
FOR UPDATE OF q
