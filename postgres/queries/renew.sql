-- Let leases run for another term from now.
--   @tokens uuid[] · @lease interval
-- Returns the tokens that still hold an event. An expired lease that was not taken is renewed too. No lease begins in the future,
-- because such a begin means that the lease was not renewed since the clock was set back.
-- Locks the leases in order of their tokens, so that two calls for the same leases cannot deadlock.
WITH held AS MATERIALIZED (
    SELECT l.token
    FROM :"schema".leases l
    WHERE l.token = ANY (@tokens::uuid[]) AND :holds
    ORDER BY l.token
    FOR UPDATE OF l
)
UPDATE :"schema".leases l
SET claimed_at = least(l.claimed_at, clock_timestamp()),
    expires_at = clock_timestamp() + @lease::interval
FROM held
WHERE l.token = held.token
RETURNING l.token
