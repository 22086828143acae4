-- Store new events, each in its series. A missing series is created. Parallel arrays, one element per event:
--   :new_arrays, each with the name of its column, one of :new_columns: see newEvent in write.go
-- If a series has an open event, or a used key of the same unit that is not lower, the event is left out. A key that belongs to another event is an
-- error (keys_pkey). A new series takes a FOR KEY SHARE lock on its user (the foreign key).
-- Returns the stored events, with the values that the database gave or changed.
WITH stored AS (
    INSERT INTO :"schema".series AS s (current_user_version, :new_columns)
    SELECT
        -- Looked up one by one, however many there are. Where there is no user, the foreign key says so.
        coalesce((SELECT u.version FROM :"schema".users u WHERE u.id = n.user_id), 0), :new_columns
    FROM unnest(:new_arrays) AS n (:new_columns)
    -- Replaces :new_columns, except the columns that name the series, and its origin: to SET a key takes a stronger lock.
    ON CONFLICT (user_id, event_type, name, detached) DO UPDATE
    SET current_user_version = excluded.current_user_version,
        event_id = excluded.event_id,
        occurrence_key = excluded.occurrence_key,
        key_unit = excluded.key_unit,
        target_timestamp_utc = excluded.target_timestamp_utc,
        target_timestamp_local = excluded.target_timestamp_local,
        nominal_local = excluded.nominal_local,
        target_timezone = excluded.target_timezone,
        policies = excluded.policies,
        idempotency_key = excluded.idempotency_key,
        key_instant = NULL,
        ready_at = NULL,
        delivery_payload = excluded.delivery_payload,
        user_version = excluded.user_version,
        origin_event = excluded.origin_event,
        follows_user = excluded.follows_user,
        payload_made = excluded.payload_made,
        last_error = NULL,
        retry_count = 0,
        claim_count = 0,
        crash_count = 0,
        version = 1,
        created_at = now(),
        updated_at = now()
    WHERE s.event_id IS NULL
        AND (excluded.key_unit <> s.used_unit OR excluded.occurrence_key > s.used_key)
        AND (excluded.occurrence_key <= (s.used_others -> excluded.key_unit ->> 0) COLLATE "C") IS NOT TRUE
    RETURNING s.id, s.event_id, s.event_type, s.target_timestamp_utc, s.target_timezone, s.idempotency_key, s.delivery_payload, s.created_at,
        CASE WHEN s.detached = '' THEN s.target_timestamp_utc ELSE greatest(s.target_timestamp_utc, s.created_at) END AS available_at
), queued AS (
    INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from)
    SELECT stored.available_at, stored.event_id, stored.id, stored.event_type,
        CASE WHEN stored.available_at <> stored.target_timestamp_utc THEN stored.target_timestamp_utc END
    FROM stored
), named AS (
    INSERT INTO :"schema".keys (idempotency_key)
    SELECT stored.idempotency_key
    FROM stored
), counted AS (
    INSERT INTO :"schema".due_changes (timezone, quarter, event_type, n)
    SELECT s.target_timezone, :quarter_of_s, s.event_type, count(*)
    FROM stored s
    GROUP BY 1, 2, 3
)
SELECT stored.event_id, stored.delivery_payload::text, stored.created_at
FROM stored
