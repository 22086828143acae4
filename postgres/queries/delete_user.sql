-- Delete a user and, by the trigger, everything about the user. If that is too much for one statement, the trigger hides the user, and
-- no row is deleted.
--   @id uuid
DELETE FROM :"schema".users
WHERE id = @id
