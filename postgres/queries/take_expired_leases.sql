-- Take away leases that ran out, oldest first. Those that are being renewed or taken are passed over.
--   @limit integer
DELETE FROM :"schema".leases l
USING (
    SELECT x.token
    FROM :"schema".leases x
    WHERE x.expires_at < clock_timestamp()
    ORDER BY x.expires_at, x.token
    LIMIT @limit
    FOR UPDATE SKIP LOCKED
) expired
WHERE l.token = expired.token
RETURNING l.token, l.event_ids
