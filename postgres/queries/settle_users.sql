-- Lock the users whose events are settled, in the order of their ids, deleted ones included. FOR SHARE lets settlements
-- pass each other and makes an edit wait for them, or them for the edit.
--   @ids uuid[]
SELECT u.deleted_at IS NOT NULL, :user
FROM :"schema".users u
WHERE u.id = ANY (@ids::uuid[])
ORDER BY u.id
FOR SHARE
