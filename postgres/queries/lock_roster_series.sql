-- Lock the open series of users, in order of id, to change their events. Until the transaction ends, none of these events is settled
-- or released. Series that another transaction has locked are left out: this statement waits for no lock.
--   @ids uuid[] (of the users)
-- Returns the ids of the open events.
SELECT s.event_id
FROM :"schema".series s
WHERE s.open_user_id = ANY (ARRAY (SELECT pg_catalog.unnest(@ids::uuid[])))
ORDER BY s.id
FOR UPDATE SKIP LOCKED
