-- Store new events, each in its series. A missing series is created. Parallel arrays, one element per event:
--   :new_arrays, each with the name of its column, one of :new_columns: see newEvent in write.go
--   @consulting uuid[] · @consulted text[]: the events that have consulted calendars, and what
-- If a series has an open event, or a used key of the same unit that is not lower, the event is left out. A key that belongs to another
-- event is an error (keys_pkey). A new series takes a FOR KEY SHARE lock on its user (the foreign key).
-- Returns the stored events, with the values that the database gave or changed.
WITH stored AS (
    INSERT INTO :"schema".series AS s (current_user_version, :new_columns)
    SELECT
        -- The planner looks the users up one by one, however many there are. If a user does not exist, the foreign key fails.
        coalesce((SELECT u.version FROM :"schema".users u WHERE u.id = n.user_id), 0), :new_columns
    FROM unnest(:new_arrays) AS n (:new_columns)
    -- The columns that name the series are not set, because setting a key takes a stronger lock. The origin stays too.
    ON CONFLICT (user_id, event_type, name, detached) DO UPDATE
    SET (current_user_version, key_instant, last_error, retry_count, claim_count, crash_count, version, created_at, updated_at,
        :renewed)
        = ROW (excluded.current_user_version, NULL, NULL, 0, 0, 0, 1, now(), now(), :excluded.renewed)
    WHERE s.event_id IS NULL
        AND (excluded.key_unit <> s.used_unit OR excluded.occurrence_key > s.used_key)
        AND (excluded.occurrence_key <= (s.used_others -> excluded.key_unit ->> 0) COLLATE "C") IS NOT TRUE
    :as_stored
