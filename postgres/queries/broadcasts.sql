-- Read broadcasts, newest first.
--   @name text (NULL: all) · @after text (the last one of the page before; '' or another name of none: from the newest on) · @limit bigint
-- Returns them with their steps, as parallel arrays.
SELECT b.name, b.event_type, b.payload::text, b.wall, b.instant, b.passed, b.attributes::text, b.locale, b.zones, b.listed, b.newcomers, b.state,
    b.created_at, b.ended_at, s.actions, s.ats, s.principals, s.reasons
FROM :"schema".broadcasts b
LEFT JOIN :"schema".broadcasts a ON a.name = @after::text
CROSS JOIN LATERAL (
    SELECT coalesce(pg_catalog.array_agg(o.action ORDER BY o.id), '{}') AS actions, coalesce(pg_catalog.array_agg(o.at ORDER BY o.id), '{}') AS ats,
        coalesce(pg_catalog.array_agg(o.principal ORDER BY o.id), '{}') AS principals, coalesce(pg_catalog.array_agg(o.reason ORDER BY o.id), '{}') AS reasons
    FROM :"schema".broadcast_steps o
    WHERE o.broadcast = b.name
) s
WHERE (@name::text IS NULL OR b.name = @name::text)
    AND (a.name IS NULL OR b.created_at < a.created_at OR b.created_at = a.created_at AND b.name > a.name)
ORDER BY b.created_at DESC, b.name
LIMIT @limit::bigint
