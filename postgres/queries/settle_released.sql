-- Release events, to be claimed again. Parallel arrays, one element per event:
--   @series bigint[] · @ids uuid[] · @versions integer[] · @users integer[]: as in settle_ended
--   @available timestamptz[] · @errors text[] · @retries integer[] (NULL for none) · @crashes integer[] · @lanes text[] (NULL: as it was)
--   · @now timestamptz
-- A row that another program has put into the queue for the event is replaced: see claim.sql.
-- Locks the series FOR NO KEY UPDATE. A series that another transaction has locked is left alone: this statement waits for no series.
-- Returns the ids of the events that were released.
WITH locked AS MATERIALIZED (
    SELECT s.id
    FROM :"schema".series s
    WHERE s.id = ANY (ARRAY (SELECT pg_catalog.unnest(@series::bigint[])))
    FOR NO KEY UPDATE SKIP LOCKED
), released AS (
    UPDATE :"schema".series s
    SET last_error = coalesce(n.last_error, s.last_error),
        retry_count = s.retry_count + coalesce(n.retries, 0),
        claim_count = s.claim_count + 1,
        crash_count = s.crash_count + n.crashes,
        lane = coalesce(n.lane, s.lane), version = s.version + 2, updated_at = @now::timestamptz
    FROM unnest(
        @series::bigint[], @ids::uuid[], @versions::integer[], @users::integer[], @available::timestamptz[], @errors::text[],
        @retries::integer[], @crashes::integer[], @lanes::text[]
    ) AS n (series_id, id, version, current_user_version, available_at, last_error, retries, crashes, lane)
    WHERE s.id = ANY (ARRAY (SELECT locked.id FROM locked))
        AND s.id = n.series_id
        AND s.event_id = n.id
        AND s.version = n.version
        AND (n.current_user_version IS NULL OR s.current_user_version = n.current_user_version)
    RETURNING s.id, s.event_id, s.event_type, n.available_at, s.target_timestamp_utc, s.retry_count, s.lane
), dequeued AS (
    DELETE FROM :"schema".queue q
    WHERE q.event_id = ANY (ARRAY (SELECT released.event_id FROM released))
    RETURNING q.event_id
), queued AS (
    INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from, retry_count, lane)
    SELECT released.available_at, released.event_id, released.id, released.event_type,
        CASE WHEN released.available_at <> released.target_timestamp_utc THEN released.target_timestamp_utc END,
        nullif(released.retry_count, 0), released.lane
    FROM released
    WHERE (SELECT count(*) FROM dequeued) >= 0 -- so that the rows are deleted first
)
SELECT released.event_id FROM released
