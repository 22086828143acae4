-- Let leases run for another term from now.
--   @tokens uuid[] · @lease interval
-- Returns the tokens that still hold something. A lease that ran out but was not taken back is renewed all the same.
UPDATE :"schema".leases l
SET expires_at = clock_timestamp() + @lease::interval
WHERE l.token = ANY (@tokens::uuid[])
RETURNING l.token
