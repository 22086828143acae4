-- Read the broadcasts of a type that are due on a day for a user, newest first.
--   @user uuid · @zone text (of the user) · @type text · @wall_from timestamp · @wall_until timestamp (the day)
--   @from timestamptz · @until timestamptz (the same day in the zone) · @limit bigint
-- Returns them with their steps, as broadcasts.sql does, without the payload. The columns after that:
--   When the broadcast is due in the zone. It is NULL if the broadcast does not know the zone.
--   Whether the zone was read.
--   Whether the user is in the list of the broadcast.
-- Locks nothing.
SELECT b.name, b.event_type, NULL::text, b.wall, b.instant, b.passed, b.attributes::text, b.locale, b.zones, b.listed, b.newcomers, b.state,
    b.created_at, b.ended_at, s.actions, s.ats, s.principals, s.reasons,
    z.zone, z.wall, z.due, coalesce(z.late, false), coalesce(z.reads > 0 OR z.next_at IS NULL, false),
    EXISTS (SELECT FROM :"schema".broadcast_users l WHERE l.user_id = @user::uuid AND l.broadcast = b.name)
FROM :"schema".broadcasts b
LEFT JOIN :"schema".broadcast_zones z ON z.broadcast = b.name AND z.zone = @zone::text
CROSS JOIN LATERAL (
    SELECT coalesce(pg_catalog.array_agg(o.action ORDER BY o.id), '{}') AS actions, coalesce(pg_catalog.array_agg(o.at ORDER BY o.id), '{}') AS ats,
        coalesce(pg_catalog.array_agg(o.principal ORDER BY o.id), '{}') AS principals, coalesce(pg_catalog.array_agg(o.reason ORDER BY o.id), '{}') AS reasons
    FROM :"schema".broadcast_steps o
    WHERE o.broadcast = b.name
) s
WHERE b.event_type = @type::text AND (z.wall >= @wall_from::timestamp AND z.wall < @wall_until::timestamp
    OR b.wall >= @wall_from::timestamp AND b.wall < @wall_until::timestamp
    OR b.instant >= @from::timestamptz AND b.instant < @until::timestamptz)
ORDER BY b.created_at DESC, b.name
LIMIT @limit::bigint
