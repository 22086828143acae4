-- Let leases run for another term from now.
--   @tokens uuid[] · @lease interval
-- Returns the tokens that still hold something. A lease that ran out but was not taken back is renewed all the same. None
-- begins in the future, which would say that it was not renewed since the clock was set back.
-- Locks the leases in order of their tokens, so that two who renew the same ones cannot deadlock.
WITH held AS MATERIALIZED (
    SELECT l.token
    FROM :"schema".leases l
    WHERE l.token = ANY (@tokens::uuid[])
        AND :holds
    ORDER BY l.token
    FOR UPDATE OF l
)
UPDATE :"schema".leases l
SET claimed_at = least(l.claimed_at, clock_timestamp()),
    expires_at = clock_timestamp() + @lease::interval
FROM held
WHERE l.token = held.token
RETURNING l.token
