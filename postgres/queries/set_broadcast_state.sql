-- Change the state of a broadcast, and end its lease.
--   @name text · @state text
UPDATE :"schema".broadcasts b
SET state = @state::text, ended_at = NULL, lease = NULL, lease_until = NULL,
    look_at = CASE WHEN @state::text = 'collecting' THEN NULL ELSE clock_timestamp() END
WHERE b.name = @name::text
