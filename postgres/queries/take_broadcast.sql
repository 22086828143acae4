-- Lease the broadcast to do next: one that is stopped, so that a stop waits for no other broadcast, or else the one that is to be looked at first.
--   @token uuid · @term interval · @without text[] (types, and lanes of broadcasts, whose events this program cannot plan)
-- Returns its name, and whether cancelled events are to be requeued now, or nothing. Waits for no lock: a broadcast that another transaction has
-- locked is passed over.
UPDATE :"schema".broadcasts b
SET lease = @token::uuid, lease_until = clock_timestamp() + @term::interval,
    look_at = clock_timestamp() -- so that broadcasts take turns
        + CASE WHEN b.state = 'stopped' THEN interval '10 seconds' ELSE interval '0' END -- each page that is done sets it back: one that fails keeps no other waiting
WHERE b.name = (
    SELECT o.name
    FROM :"schema".broadcasts o
    WHERE o.look_at <= clock_timestamp() AND (o.lease IS NULL OR o.lease = @token::uuid OR o.lease_until <= clock_timestamp())
        AND (o.state <> 'storing' OR o.requeue_at <= clock_timestamp()
            OR NOT o.event_type = ANY (@without::text[]) AND NOT o.event_type || '/'::text || o.name = ANY (@without::text[]))
    ORDER BY o.state <> 'stopped', o.look_at, o.name
    LIMIT 1
    FOR NO KEY UPDATE SKIP LOCKED
)
RETURNING b.name, coalesce(b.requeue_at <= clock_timestamp(), false)
