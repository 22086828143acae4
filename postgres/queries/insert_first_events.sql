-- Store the first events of series, for users whom this transaction has created or locked. Parallel arrays, as in insert_events.sql.
-- Without ON CONFLICT, the series take a quarter less time.
--   :new_arrays: see newEvent in write.go
--   @consulting uuid[] · @consulted text[]: the events that have consulted calendars, and what
-- Returns the events as stored. A key that belongs to another event is an error (keys_pkey), and so is a series that exists (series_name_key).
WITH stored AS (
    INSERT INTO :"schema".series AS s (current_user_version, :new_columns)
    SELECT n.user_version, :new_columns
    FROM unnest(:new_arrays) AS n (:new_columns)
    :as_stored
