-- Release a user's events that were claimed ahead of their target and are not due yet: put them into the queue again. No process
-- has begun them. The transaction has already locked the user's series and pending events, so the clock is read after the lock, as
-- confirm.sql requires. The lease that held the events still lists them, at an old version.
--   @id uuid (of the user)
-- Returns the ids of the events. Leases are read only if there is such an event, and only the leases that list its series are unnested.
WITH ahead AS MATERIALIZED (
    SELECT s.id, s.event_id, s.version
    FROM :"schema".series s
    WHERE s.open_user_id = @id
        AND s.claim_count = 0
        AND greatest(s.target_timestamp_utc, s.ready_at) > clock_timestamp()
        AND NOT EXISTS (SELECT FROM :"schema".queue q WHERE q.event_id = s.event_id)
), held AS MATERIALIZED (
    SELECT held.series_id, held.event_id, held.version
    FROM (SELECT pg_catalog.array_agg(ahead.id) AS series_ids FROM ahead HAVING count(*) > 0) wanted
    CROSS JOIN LATERAL (
        SELECT l.series_ids, l.event_ids, l.versions
        FROM :"schema".leases l
        WHERE l.series_ids OPERATOR(pg_catalog.&&) wanted.series_ids
            AND l.ahead_since <= clock_timestamp()
        OFFSET 0
    ) l
    CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
), released AS (
    UPDATE :"schema".series s
    SET version = s.version + 2, updated_at = clock_timestamp()
    FROM ahead
    JOIN held ON held.series_id = ahead.id AND held.event_id = ahead.event_id AND held.version = ahead.version
    WHERE s.id = ahead.id
    RETURNING s.id, s.event_id, s.event_type, s.target_timestamp_utc, s.ready_at, s.lane
)
INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from, lane)
SELECT greatest(released.target_timestamp_utc, released.ready_at), released.event_id, released.id, released.event_type,
    CASE WHEN released.ready_at > released.target_timestamp_utc THEN released.target_timestamp_utc END, released.lane
FROM released
RETURNING event_id
