-- Delete a user and, by the foreign key, their events.
--   @id uuid
DELETE FROM :"schema".users
WHERE id = @id
