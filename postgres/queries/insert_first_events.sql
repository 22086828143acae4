-- Store the first events of users whom this transaction has created, each in a series of its own. Parallel arrays, as in insert_events.sql.
-- No other transaction can see these users yet, so they have no series. Without ON CONFLICT, the series take a quarter less time.
--   :new_arrays: see newEvent in write.go
--   @consulting uuid[] · @consulted text[]: the events that have consulted calendars, and what
-- Returns the events as stored. A key that belongs to another event is an error (keys_pkey).
WITH stored AS (
    INSERT INTO :"schema".series AS s (current_user_version, :new_columns)
    SELECT 1, :new_columns
    FROM unnest(:new_arrays) AS n (:new_columns)
    :as_stored
