-- Find a user who is not deleted.
--   @id uuid
SELECT :user
FROM :"schema".users u
WHERE u.id = @id AND u.deleted_at IS NULL
