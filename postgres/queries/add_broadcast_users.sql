-- Add users to the list of a broadcast. Locks the users against edits and deletion, so that their zones
-- stay, and waits for transactions that do either.
--   @name text · @ids uuid[] · @external_ids text[]
-- Returns how many were added, the ids of no user, and the external ids of no user.
WITH found AS MATERIALIZED (
    SELECT u.id, u.external_id, u.timezone
    FROM :"schema".users u
    WHERE (u.id = ANY (@ids::uuid[]) OR u.external_id = ANY (@external_ids::text[])) AND u.deleted_at IS NULL
    ORDER BY u.id
    FOR SHARE
), added AS (
    INSERT INTO :"schema".broadcast_users (user_id, broadcast, zone)
    SELECT found.id, @name::text, found.timezone
    FROM found
    ON CONFLICT (user_id, broadcast) DO NOTHING
    RETURNING user_id
)
SELECT (SELECT count(*) FROM added),
    ARRAY (SELECT i.id FROM pg_catalog.unnest(@ids::uuid[]) AS i (id) WHERE i.id NOT IN (SELECT found.id FROM found)),
    ARRAY (
        SELECT e.id
        FROM pg_catalog.unnest(@external_ids::text[]) AS e (id)
        WHERE e.id NOT IN (SELECT found.external_id FROM found WHERE found.external_id IS NOT NULL)
    )
