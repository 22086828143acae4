-- Lock a user who is to be deleted: FOR UPDATE also keeps out inserts of events, whose foreign key locks the user.
--   @id uuid
SELECT :user
FROM :"schema".users u
WHERE u.id = @id
    AND u.deleted_at IS NULL
FOR UPDATE
