-- Lock a user who is to be deleted: FOR UPDATE also keeps out inserts of events, whose foreign key locks the user.
--   @id uuid · @hidden boolean: also one who was deleted before and is still there for what is in flight
-- Returns their version.
SELECT u.version
FROM :"schema".users u
WHERE u.id = @id
    AND (u.deleted_at IS NULL OR @hidden::boolean)
FOR UPDATE
