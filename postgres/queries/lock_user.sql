-- Lock a user for an edit: until the transaction ends, no other edit and no settlement reads the row.
--   @id uuid
SELECT :user
FROM :"schema".users u
WHERE u.id = @id AND u.deleted_at IS NULL
FOR NO KEY UPDATE
