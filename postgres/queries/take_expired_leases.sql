-- Take expired leases, oldest first, to release their events. Events that cannot be released stay in the lease: see keep_leases.sql.
--   @limit integer (the most events, and the most leases) · @before timestamptz (leases that ran out earlier; NULL for now)
-- If a lease holds more events than the rest of the limit, only so many are returned. A lease that begins in the future was
-- written before the clock was set back, perhaps by hours. Such a lease begins now instead and lasts as long. A live process
-- renews it in time, and the events of a dead process are released before the clock has caught up. A settlement that would end
-- the lease meanwhile passes it over, and the lease expires empty.
-- Locks the leases. Those that another transaction renews or takes are passed over.
-- Returns the clock and the leases.
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
), expired AS MATERIALIZED (
    SELECT x.token, x.expires_at, x.series_ids, x.event_ids, x.versions, x.ahead_since, x.alone
    FROM :"schema".leases x
    WHERE x.expires_at < coalesce(@before::timestamptz, clock_timestamp())
    ORDER BY x.expires_at, x.token
    LIMIT @limit::integer
    FOR UPDATE SKIP LOCKED
), counted AS (
    SELECT e.*, (@limit::integer + pg_catalog.cardinality(e.series_ids)
        - sum(pg_catalog.cardinality(e.series_ids)) OVER (ORDER BY e.expires_at, e.token))::integer AS room
    FROM expired e
)
SELECT clock_timestamp(), c.token, c.series_ids[1:c.room], c.event_ids[1:c.room], c.versions[1:c.room], c.ahead_since, c.alone
FROM counted c
WHERE c.room > 0
