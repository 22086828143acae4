-- Take a lease away.
--   @token uuid
DELETE FROM :"schema".leases l
WHERE l.token = @token
RETURNING l.token, l.event_ids
