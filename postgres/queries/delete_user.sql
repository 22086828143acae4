-- Delete a user and, by the trigger, everything about them.
--   @id uuid
DELETE FROM :"schema".users
WHERE id = @id
