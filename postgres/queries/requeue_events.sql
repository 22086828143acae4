-- Let events that failed or were cancelled begin again, each in a series of its own, under its old occurrence key and idempotency
-- key. Parallel arrays, one element per event:
--   :new_arrays, as in insert_events.sql · @available timestamptz[] · @claims integer[] · @errors text[]
-- The count of claims begins at a million at most: see series_new_guard in the schema.
-- An event that was requeued before has such a series, and is left out.
WITH stored AS (
    INSERT INTO :"schema".series AS s (current_user_version, claim_count, last_error, key_instant, :new_columns)
    SELECT
        coalesce((SELECT u.version FROM :"schema".users u WHERE u.id = n.user_id), 0), least(n.claim_count, 1000000), n.last_error,
        (
            SELECT coalesce(e.key_instant, CASE WHEN e.target_timestamp_utc <> n.target_timestamp_utc THEN e.target_timestamp_utc END)
            FROM :"schema".ended_events e
            WHERE e.id = n.origin_event
        ),
        :new_columns
    FROM unnest(@claims::integer[], @errors::text[], :new_arrays) AS n (claim_count, last_error, :new_columns)
    ON CONFLICT (user_id, event_type, name, detached) DO NOTHING
    RETURNING s.id, s.event_id, s.event_type, s.target_timestamp_utc, s.target_timezone, s.lane
), counted AS (
    INSERT INTO :"schema".due_changes (timezone, quarter, event_type, n)
    SELECT s.target_timezone, :quarter_of_s, s.event_type, count(*)
    FROM stored s
    GROUP BY 1, 2, 3
)
INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from, lane)
SELECT n.available_at, stored.event_id, stored.id, stored.event_type,
    CASE WHEN n.available_at <> stored.target_timestamp_utc THEN stored.target_timestamp_utc END, stored.lane
FROM stored
JOIN unnest(@event_id::uuid[], @available::timestamptz[]) AS n (event_id, available_at) ON n.event_id = stored.event_id
