-- Note when a broadcast has a zone to read again or events to requeue, and end its lease. If it has neither, it is stored.
--   @name text
UPDATE :"schema".broadcasts b
SET state = CASE WHEN n.at IS NULL THEN 'stored' ELSE b.state END, lease = NULL, lease_until = NULL,
    look_at = CASE WHEN n.at IS NULL THEN clock_timestamp() ELSE least(n.at, clock_timestamp() + interval '1 minute') END -- there may be more zones then
FROM (
    SELECT least(o.requeue_at, (SELECT min(z.next_at) FROM :"schema".broadcast_zones z WHERE z.broadcast = o.name)) AS at
    FROM :"schema".broadcasts o
    WHERE o.name = @name::text
) n
WHERE b.name = @name::text AND b.state = 'storing'
