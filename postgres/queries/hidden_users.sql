-- Users who are deleted, not removed yet, and without events in flight.
--   @after uuid · @limit integer
SELECT u.id
FROM :"schema".users u
WHERE u.deleted_at IS NOT NULL
    AND u.id > @after
    AND NOT EXISTS (SELECT FROM :"schema".series s WHERE s.open_user_id = u.id)
ORDER BY u.id
LIMIT @limit::integer
