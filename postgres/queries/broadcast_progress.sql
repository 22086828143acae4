-- How far a broadcast is in each zone.
--   @name text · @lane text · @ended boolean (whether its events were counted when they had ended)
SELECT z.zone, z.wall, z.due, z.late, z.next_at IS NULL, z.users_read, z.stored, z.opted_out, z.refused, z.left_out,
    CASE WHEN @ended::boolean THEN coalesce(z.delivered, 0::bigint) ELSE coalesce(c.delivered, 0::bigint) END,
    CASE WHEN @ended::boolean THEN coalesce(z.failed, 0::bigint) ELSE coalesce(c.failed, 0::bigint) END,
    CASE WHEN @ended::boolean THEN coalesce(z.cancelled, 0::bigint) ELSE greatest(coalesce(c.cancelled, 0::bigint) - z.requeued, 0::bigint) END
FROM :"schema".broadcast_zones z
LEFT JOIN (
    SELECT h.target_timezone AS zone, count(*) FILTER (WHERE h.status = 'COMPLETED') AS delivered,
        count(*) FILTER (WHERE h.status = 'FAILED') AS failed, count(*) FILTER (WHERE h.status = 'CANCELLED') AS cancelled
    FROM :"schema".ended_events h
    WHERE h.lane = @lane::text AND h.origin IN ('scheduled', 'requeued') AND h.lane <> '' AND NOT @ended::boolean
    GROUP BY h.target_timezone
) c ON c.zone = z.zone AND NOT @ended::boolean
WHERE z.broadcast = @name::text
ORDER BY z.due NULLS LAST, z.zone
