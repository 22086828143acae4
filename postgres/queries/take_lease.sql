-- Take a lease away.
--   @token uuid
DELETE FROM :"schema".leases l
WHERE l.token = @token
RETURNING l.token, l.series_ids, l.event_ids, l.versions, l.ahead_since
