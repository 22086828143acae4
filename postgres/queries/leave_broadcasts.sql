-- End the leases of a program on broadcasts whose events it cannot plan, so that another program stores them at once.
--   @token uuid · @without text[] (types, and lanes of broadcasts)
-- Waits for no lock: a lease on a broadcast that another transaction has locked stays.
UPDATE :"schema".broadcasts b
SET lease = NULL, lease_until = NULL
WHERE b.name = ANY (ARRAY (
    SELECT o.name
    FROM :"schema".broadcasts o
    WHERE o.lease = @token::uuid AND o.state = 'storing'
        AND (o.event_type = ANY (@without::text[]) OR o.event_type || '/'::text || o.name = ANY (@without::text[]))
    FOR NO KEY UPDATE SKIP LOCKED
))
