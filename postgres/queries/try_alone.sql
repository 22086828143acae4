-- Mark the event that the holder of a lease tries alone.
--   @token uuid · @id uuid
-- Locks the lease. Returns the token if the lease lists the event.
UPDATE :"schema".leases l
SET alone = @id
WHERE l.token = @token AND @id::uuid = ANY (l.event_ids)
RETURNING l.token
