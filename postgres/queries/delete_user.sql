-- Delete a user and, by the trigger, everything about the user.
--   @id uuid
DELETE FROM :"schema".users
WHERE id = @id
