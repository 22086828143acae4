-- The next users of a zone who have no event of a broadcast, in the order of their ids.
--   @name text · @zone text · @type text · @detached text (these name the series of its events) · @until timestamptz (when users were created)
--   @attributes text (JSON; NULL: any) · @locale text ('': any) · @listed boolean · @scan bigint (users to look at) · @limit bigint
--   @token uuid (of the lease)
-- Locks nothing. Returns nothing if the broadcast is not storing or has another lease. Otherwise it returns the users, the last user who was
-- looked at (or NULL), and how many were looked at. It also returns whether the page is the first one of the zone, and how often the zone was
-- read before. The last columns are how many users were locked on earlier pages, and when this reading was due. Subqueries make the planner
-- look users up one by one.
WITH at AS MATERIALIZED (
    SELECT z.position, z.reads, z.next_at, CASE WHEN z.position IS NULL THEN 0::bigint ELSE z.locked END AS locked
    FROM :"schema".broadcast_zones z
    WHERE z.broadcast = @name::text AND z.zone = @zone::text AND EXISTS (
        SELECT FROM :"schema".broadcasts b WHERE b.name = z.broadcast AND b.state = 'storing' AND b.lease = @token::uuid
    )
), scanned AS MATERIALIZED (
    (
        SELECT u.id, u.created_at, u.deleted_at, u.attributes, u.locale
        FROM :"schema".users u
        WHERE NOT @listed::boolean AND u.timezone = @zone::text AND u.deleted_at IS NULL
            AND u.id > coalesce((SELECT at.position FROM at), '00000000-0000-0000-0000-000000000000')
        ORDER BY u.id
        LIMIT @scan::bigint
    )
    UNION ALL
    SELECT l.user_id, u.created_at, u.deleted_at, u.attributes, u.locale
    FROM (
        SELECT o.user_id
        FROM :"schema".broadcast_users o
        WHERE @listed::boolean AND o.broadcast = @name::text AND o.zone = @zone::text
            AND o.user_id > coalesce((SELECT at.position FROM at), '00000000-0000-0000-0000-000000000000')
        ORDER BY o.user_id
        LIMIT @scan::bigint
    ) l
    LEFT JOIN LATERAL (SELECT * FROM :"schema".users o WHERE o.id = l.user_id OFFSET 0) u ON true
), picked AS MATERIALIZED (
    SELECT s.id
    FROM scanned s
    WHERE s.created_at <= @until::timestamptz AND s.deleted_at IS NULL
        AND (@attributes::text IS NULL OR s.attributes @> @attributes::text::jsonb)
        AND (@locale::text = '' OR s.locale = @locale::text OR pg_catalog.starts_with(s.locale, @locale::text || '-'::text))
        AND (
            SELECT x.id
            FROM :"schema".series x
            WHERE x.user_id = s.id AND x.event_type = @type::text AND x.name = '' AND x.detached = @detached::text
        ) IS NULL
    ORDER BY s.id
    LIMIT @limit::bigint
)
SELECT ARRAY (SELECT p.id FROM picked p ORDER BY p.id), (SELECT s.id FROM scanned s ORDER BY s.id DESC LIMIT 1), (SELECT count(*) FROM scanned),
    at.position IS NULL, at.reads, at.locked, at.next_at
FROM at
