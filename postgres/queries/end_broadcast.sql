-- Note that all events of a broadcast have ended, how many by zone, and end its lease.
--   @name text · @lane text
WITH counted AS MATERIALIZED (
    SELECT h.target_timezone AS zone, count(*) FILTER (WHERE h.status = 'COMPLETED') AS delivered,
        count(*) FILTER (WHERE h.status = 'FAILED') AS failed, count(*) FILTER (WHERE h.status = 'CANCELLED') AS cancelled
    FROM :"schema".ended_events h
    WHERE h.lane = @lane::text AND h.origin IN ('scheduled', 'requeued') AND h.lane <> ''
    GROUP BY h.target_timezone
), kept AS (
    UPDATE :"schema".broadcast_zones z
    SET delivered = coalesce((SELECT c.delivered FROM counted c WHERE c.zone = z.zone), 0::bigint),
        failed = coalesce((SELECT c.failed FROM counted c WHERE c.zone = z.zone), 0::bigint),
        cancelled = greatest(coalesce((SELECT c.cancelled FROM counted c WHERE c.zone = z.zone), 0::bigint) - z.requeued, 0::bigint)
    WHERE z.broadcast = @name::text
)
UPDATE :"schema".broadcasts b
SET state = CASE WHEN b.state = 'stopped' THEN b.state ELSE 'ended' END, ended_at = clock_timestamp(), look_at = NULL, lease = NULL, lease_until = NULL
WHERE b.name = @name::text
