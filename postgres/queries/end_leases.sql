-- End leases that hold nothing any more. One that is being taken away is passed over, since waiting for it while holding
-- its events could deadlock; whoever takes it away ends it.
--   @tokens uuid[]
DELETE FROM :"schema".leases
WHERE token IN (
    SELECT l.token
    FROM :"schema".leases l
    WHERE l.token = ANY (@tokens::uuid[])
        AND NOT :holds
    FOR UPDATE SKIP LOCKED
)
