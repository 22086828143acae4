-- Note that the pending events of a broadcast are to be looked at from the beginning.
--   @name text
UPDATE :"schema".broadcasts b
SET cancel_at = NULL, cancel_id = NULL
WHERE b.name = @name::text
