-- Lease the broadcast that is to be looked at first.
--   @token uuid · @term interval · @without text[] (types to leave out)
-- Returns its name, and whether cancelled events are to be requeued, or nothing. Waits for no lock: a broadcast that another transaction has locked is passed over.
UPDATE :"schema".broadcasts b
SET lease = @token::uuid, lease_until = clock_timestamp() + @term::interval, look_at = clock_timestamp() -- so that broadcasts take turns
WHERE b.name = (
    SELECT o.name
    FROM :"schema".broadcasts o
    WHERE o.look_at <= clock_timestamp() AND (o.lease IS NULL OR o.lease = @token::uuid OR o.lease_until <= clock_timestamp())
        AND NOT o.event_type = ANY (@without::text[])
    ORDER BY o.look_at, o.name
    LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
)
RETURNING b.name, b.requeued IS NOT NULL
