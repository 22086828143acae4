-- Note that a broadcast could not be looked at, so that it keeps no other one waiting, and end the lease of the program.
--   @name text · @token uuid
-- Waits for no lock, and changes nothing if another program has leased the broadcast.
UPDATE :"schema".broadcasts b
SET look_at = clock_timestamp() + interval '10 seconds', lease = NULL, lease_until = NULL
WHERE b.name = ANY (ARRAY (
    SELECT o.name
    FROM :"schema".broadcasts o
    WHERE o.name = @name::text AND o.look_at <= clock_timestamp()
        AND (o.lease IS NULL OR o.lease = @token::uuid OR o.lease_until <= clock_timestamp())
    FOR NO KEY UPDATE SKIP LOCKED
))
