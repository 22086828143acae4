-- A page of users, in the order of their ids.
--   @after uuid · @limit integer
SELECT u.id
FROM :"schema".users u
WHERE u.id > @after AND u.deleted_at IS NULL
ORDER BY u.id
LIMIT @limit
