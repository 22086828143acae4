-- Lock users against edits and deletion, in the order of their ids. FOR SHARE lets settlements pass. Who is locked, or deleted, is left
-- out.
--   @ids uuid[]
SELECT :user
FROM :"schema".users u
WHERE u.id = ANY (@ids::uuid[])
    AND u.deleted_at IS NULL
ORDER BY u.id
FOR SHARE SKIP LOCKED
