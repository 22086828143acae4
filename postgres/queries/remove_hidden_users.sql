-- Remove deleted users of whom nothing is in flight any more. Users who are locked wait for the next time.
--   @limit integer
DELETE FROM :"schema".users
WHERE id IN (
    SELECT u.id
    FROM :"schema".users u
    WHERE u.deleted_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM :"schema".series s WHERE s.user_id = u.id AND s.event_id IS NOT NULL)
    ORDER BY u.id
    LIMIT @limit
    FOR UPDATE SKIP LOCKED
)
