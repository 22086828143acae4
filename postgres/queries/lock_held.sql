-- Lock the series of the events that taken leases still hold. This is a separate statement, so that the next one sees users who
-- were deleted before their series could be locked.
--   @tokens uuid[] · @series bigint[] · @ids uuid[] · @versions integer[] (parallel)
-- Locks the series FOR UPDATE, so that confirm.sql sees the lock. Series that another transaction has locked are skipped: this
-- statement waits for no lock.
-- Returns the events that are held, and whether each is locked now.
WITH held AS MATERIALIZED (
    SELECT n.*
    FROM unnest(@tokens::uuid[], @series::bigint[], @ids::uuid[], @versions::integer[]) AS n (token, series_id, event_id, version)
    JOIN :"schema".series s ON s.id = n.series_id
    WHERE s.id = ANY (ARRAY (SELECT pg_catalog.unnest(@series::bigint[])))
        AND s.event_id = n.event_id AND s.version = n.version
), locked AS MATERIALIZED (
    SELECT s.id, s.event_id, s.version
    FROM :"schema".series s
    WHERE s.id = ANY (ARRAY (SELECT held.series_id FROM held))
    FOR UPDATE SKIP LOCKED
)
SELECT held.token, held.series_id, held.event_id, held.version, locked.id IS NOT NULL
FROM held
LEFT JOIN locked ON locked.id = held.series_id AND locked.event_id = held.event_id AND locked.version = held.version
