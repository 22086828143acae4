-- Note that the list of a broadcast is complete.
--   @name text
UPDATE :"schema".broadcasts b
SET state = 'storing', look_at = clock_timestamp()
WHERE b.name = @name::text AND b.state = 'collecting'
