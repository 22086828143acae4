-- Lock a page of users, in the order of their ids, against edits and deletion: until the transaction ends they stay as they are.
-- FOR SHARE lets settlements pass, and others who do the same.
--   @after uuid · @limit integer
SELECT :user
FROM :"schema".users u
WHERE u.id > @after
    AND u.deleted_at IS NULL
ORDER BY u.id
LIMIT @limit
FOR SHARE
