-- Lock a broadcast that a program has leased, if it is in a state, and extend the lease.
--   @name text · @token uuid · @state text · @term interval
-- Returns its name, or nothing.
UPDATE :"schema".broadcasts b
SET lease_until = clock_timestamp() + @term::interval
WHERE b.name = @name::text AND b.lease = @token::uuid AND b.state = @state::text
RETURNING b.name
