-- Lock the pending events of users, of series that the transaction has locked. Events that a claim in progress has locked are left
-- out: this statement waits for no lock.
--   @ids uuid[] (of the users)
-- Returns the ids of the events.
SELECT q.event_id
FROM :"schema".series s
JOIN :"schema".queue q ON q.event_id = s.event_id
WHERE s.open_user_id = ANY (ARRAY (SELECT pg_catalog.unnest(@ids::uuid[])))
ORDER BY q.event_id
FOR UPDATE OF q SKIP LOCKED
