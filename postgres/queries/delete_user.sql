-- Delete a user and, by the foreign key, their history.
--   @id uuid
DELETE FROM :"schema".users
WHERE id = @id
