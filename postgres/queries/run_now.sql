-- Change when pending events that were claimed before can be claimed again. The transaction has locked their series. Parallel
-- arrays, one element per event:
--   @ids uuid[] · @versions integer[] (the versions after) · @available timestamptz[]
-- Returns the ids of the events that were at the version before, PENDING and claimed before. The caller undoes the transaction when
-- an id is missing.
-- The CTE todo is joined before the series are. The planner expects few rows, and would compare each series with each event.
WITH n AS MATERIALIZED (
    SELECT *
    FROM unnest(@ids::uuid[], @versions::integer[], @available::timestamptz[]) AS n (id, version, available_at)
), dequeued AS (
    DELETE FROM :"schema".queue q
    WHERE q.event_id = ANY (ARRAY (SELECT n.id FROM n))
    RETURNING q.series_id, q.event_id
), todo AS MATERIALIZED (
    SELECT dequeued.series_id, n.*
    FROM dequeued
    JOIN n ON n.id = dequeued.event_id
), rescheduled AS (
    UPDATE :"schema".series s
    SET version = s.version + 1, updated_at = clock_timestamp()
    FROM todo n
    WHERE s.id = n.series_id AND s.event_id = n.id AND s.version = n.version - 1 AND s.claim_count > 0
    RETURNING s.id, s.event_id, s.event_type, greatest(n.available_at, s.target_timestamp_utc) AS available_at,
        s.target_timestamp_utc, s.retry_count, s.lane
), queued AS (
    INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from, retry_count, lane)
    SELECT rescheduled.available_at, rescheduled.event_id, rescheduled.id, rescheduled.event_type,
        CASE WHEN rescheduled.available_at <> rescheduled.target_timestamp_utc THEN rescheduled.target_timestamp_utc END,
        nullif(rescheduled.retry_count, 0), rescheduled.lane
    FROM rescheduled
)
SELECT rescheduled.event_id FROM rescheduled
