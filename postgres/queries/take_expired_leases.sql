-- Take away leases that ran out, oldest first. Those that are being renewed or taken are passed over.
--   @limit integer
-- A lease that begins in the future was written before the clock was set back, by hours perhaps. It begins now instead and
-- lasts as long: whoever lives renews it in time, and what the dead hold is not held until the clock is back there. A
-- settlement that would end it meanwhile passes it over, and it runs out holding nothing.
WITH early AS (
    SELECT x.token
    FROM :"schema".leases x
    WHERE x.claimed_at > clock_timestamp()
    FOR UPDATE SKIP LOCKED
), moved AS (
    UPDATE :"schema".leases l
    SET claimed_at = clock_timestamp(),
        expires_at = clock_timestamp() + (l.expires_at - l.claimed_at)
    FROM early
    WHERE l.token = early.token
)
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
RETURNING l.token, l.series_ids, l.event_ids, l.versions, l.ahead_since
