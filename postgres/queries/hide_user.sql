-- Hide a user until nothing of theirs is in flight.
--   @id uuid
UPDATE :"schema".users
SET deleted_at = clock_timestamp(),
    version = version + 1,
    updated_at = clock_timestamp()
WHERE id = @id
