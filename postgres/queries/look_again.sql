-- Note that a broadcast is to be looked at again in ten seconds, from the beginning, and end its lease.
--   @name text
UPDATE :"schema".broadcasts b
SET look_at = clock_timestamp() + interval '10 seconds', cancel_at = NULL, cancel_id = NULL, counted = NULL, lease = NULL, lease_until = NULL
WHERE b.name = @name::text
