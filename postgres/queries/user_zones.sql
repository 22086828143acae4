-- The time zones of users that a broadcast has no row for.
--   @name text
-- Reads one entry of an index for each zone.
WITH RECURSIVE zones (zone) AS (
    (
        SELECT u.timezone
        FROM :"schema".users u
        WHERE u.deleted_at IS NULL
        ORDER BY u.timezone
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT u.timezone
        FROM :"schema".users u
        WHERE u.deleted_at IS NULL AND u.timezone > z.zone
        ORDER BY u.timezone
        LIMIT 1
    )
    FROM zones z
    WHERE z.zone IS NOT NULL
)
SELECT z.zone
FROM zones z
WHERE z.zone IS NOT NULL AND NOT EXISTS (
    SELECT FROM :"schema".broadcast_zones o WHERE o.broadcast = @name::text AND o.zone = z.zone
)
