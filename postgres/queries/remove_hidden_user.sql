-- Remove a deleted user without events in flight, or a page of the user's rows: see forget_user in schema.sql. A user whom another
-- transaction has locked is left for the next time.
--   @id uuid
-- Locks the user and a page of the user's rows, and waits for no lock of the user or of a series.
-- Returns whether rows of the user are left.
WITH hidden AS MATERIALIZED (
    SELECT u.id
    FROM :"schema".users u
    WHERE u.id = @id
        AND u.deleted_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM :"schema".series s WHERE s.open_user_id = u.id)
    FOR UPDATE SKIP LOCKED
), removed AS (
    DELETE FROM :"schema".users u
    USING hidden
    WHERE u.id = hidden.id
    RETURNING u.id
)
SELECT (SELECT count(*) FROM hidden) > (SELECT count(*) FROM removed)
