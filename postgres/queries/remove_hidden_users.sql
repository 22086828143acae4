-- Remove deleted users of whom nothing is in flight any more. A user of whom another transaction has locked anything waits for the
-- next time: the trigger that removes their series would wait for it.
--   @limit integer
-- Locks the users and their series FOR UPDATE, and waits for none of them.
WITH hidden AS MATERIALIZED (
    SELECT u.id
    FROM :"schema".users u
    WHERE u.deleted_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM :"schema".series s WHERE s.open_user_id = u.id)
    ORDER BY u.id
    LIMIT @limit
    FOR UPDATE SKIP LOCKED
), locked AS MATERIALIZED (
    SELECT s.user_id
    FROM :"schema".series s
    WHERE s.user_id = ANY (ARRAY (SELECT hidden.id FROM hidden))
    FOR UPDATE SKIP LOCKED
)
DELETE FROM :"schema".users u
USING hidden
WHERE u.id = hidden.id
    AND (SELECT count(*) FROM :"schema".series s WHERE s.user_id = hidden.id) = (SELECT count(*) FROM locked WHERE locked.user_id = hidden.id)
