-- Hide a user until none of the user's events is in flight.
--   @id uuid
UPDATE :"schema".users
SET deleted_at = clock_timestamp(), version = version + 1, updated_at = clock_timestamp()
WHERE id = @id
