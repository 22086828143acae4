-- How far a broadcast is in each zone.
--   @name text · @lane text · @ended boolean (whether its events were counted when they had ended)
-- Returns zones that users have moved to since, too: the wall time is NULL then, as is the instant, and the last column true.
SELECT coalesce(z.zone, c.zone), z.wall, z.due, coalesce(z.late, false), coalesce(z.reads > 0 OR z.next_at IS NULL, true), coalesce(z.users_read, 0::bigint), coalesce(z.stored, 0::bigint),
    coalesce(z.opted_out, 0::bigint), coalesce(z.refused, 0::bigint), coalesce(z.left_out, 0::bigint),
    CASE WHEN @ended::boolean THEN coalesce(z.delivered, 0::bigint) ELSE coalesce(c.delivered, 0::bigint) END,
    CASE WHEN @ended::boolean THEN coalesce(z.failed, 0::bigint) ELSE coalesce(c.failed, 0::bigint) END,
    CASE WHEN @ended::boolean THEN coalesce(z.cancelled, 0::bigint) ELSE greatest(coalesce(c.cancelled, 0::bigint) - coalesce(z.requeued, 0::bigint), 0::bigint) END,
    z.zone IS NULL
FROM (
    SELECT o.zone, o.wall, o.due, o.late, o.reads, o.next_at, o.users_read, o.stored, o.opted_out, o.refused, o.left_out, o.requeued, o.delivered, o.failed, o.cancelled
    FROM :"schema".broadcast_zones o
    WHERE o.broadcast = @name::text
) z
FULL JOIN (
    SELECT e.zone, count(*) FILTER (WHERE e.status = 'COMPLETED') AS delivered,
        count(*) FILTER (WHERE e.status = 'FAILED') AS failed, count(*) FILTER (WHERE e.status = 'CANCELLED') AS cancelled
    FROM (
        SELECT h.target_timezone AS zone, h.status
        FROM :"schema".ended_events h
        WHERE h.lane = @lane::text AND h.origin IN ('scheduled', 'requeued') AND h.of_broadcast AND NOT @ended::boolean
        UNION ALL
        SELECT r.zone, r.status
        FROM :"schema".broadcasts b
        JOIN :"schema".broadcast_removed r ON r.broadcast = b.name AND r.created_at = b.created_at
        WHERE b.name = @name::text AND NOT @ended::boolean
    ) e
    GROUP BY e.zone
) c ON c.zone = z.zone
