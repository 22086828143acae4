-- Remove deleted users without events in flight. A user is left for the next time if another transaction has locked the user or
-- any of the user's series, because the trigger that removes the series would wait for that lock.
--   @ids uuid[] (the users)
-- Locks the users and their series FOR UPDATE, and waits for no lock.
WITH hidden AS MATERIALIZED (
    SELECT u.id
    FROM :"schema".users u
    WHERE u.id = ANY (@ids::uuid[])
        AND u.deleted_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM :"schema".series s WHERE s.open_user_id = u.id)
    ORDER BY u.id
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
    AND (SELECT count(*) FROM :"schema".series s WHERE s.user_id = hidden.id)
        = (SELECT count(*) FROM locked WHERE locked.user_id = hidden.id)
