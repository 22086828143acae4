-- The used keys of users, for some types or for all: of their open series, and of the single series of each given type, if it has no open
-- event. Other series without an open event, and series of requeued events, are left out.
--   @ids uuid[] · @types text[] (NULL for all types)
-- Returns what series_keys.sql returns, of the series that have used keys or whose event was ever claimed. OFFSET 0 makes the planner
-- look up the series user by user.
SELECT s.user_id, s.event_type, s.name, s.detached, s.open_user_id IS NOT NULL, begun.claimed,
    s.key_unit, s.occurrence_key, coalesce(s.nominal_local, s.target_timestamp_local), :used
FROM pg_catalog.unnest(@ids::uuid[]) AS n (id)
CROSS JOIN LATERAL (
    (
        SELECT o.* FROM :"schema".series o WHERE o.open_user_id = n.id OFFSET 0
    ) UNION ALL (
        SELECT o.*
        FROM :"schema".series o
        WHERE o.user_id = n.id AND o.event_type = ANY (@types::text[]) AND o.name = '' AND o.detached = '' AND o.open_user_id IS NULL
        OFFSET 0
    )
) s
CROSS JOIN LATERAL (
    SELECT s.open_user_id IS NOT NULL
        AND (s.claim_count > 0 OR NOT EXISTS (SELECT FROM :"schema".queue q WHERE q.event_id = s.event_id))
) AS begun (claimed)
WHERE (@types::text[] IS NULL OR s.event_type = ANY (@types::text[])) AND (begun.claimed OR s.used_key <> '')
    AND (s.open_user_id IS NULL OR s.origin IS DISTINCT FROM 'requeued')
