-- Lock a user who is to be deleted: FOR UPDATE also keeps out inserts of events, whose foreign key locks the user.
--   @id uuid · @hidden boolean: whether to lock a user who was deleted before and is still stored because of events in flight
-- Returns the version of the user.
SELECT u.version
FROM :"schema".users u
WHERE u.id = @id AND (u.deleted_at IS NULL OR @hidden::boolean)
FOR UPDATE
