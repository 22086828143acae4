-- The used keys of some series, and their open events. Parallel arrays, one element per series:
--   @users uuid[] · @types text[] · @names text[] · @detached text[]
-- Returns each series that is stored: its user, type, name and the column detached; whether it has an open event; whether that event was
-- ever claimed or can be claimed; the unit, the key and the nominal wall time of the last event. The last column has the used keys as text (see
-- usedText in statements.go). OFFSET 0 makes the planner look up the series one by one, by their names.
SELECT s.user_id, s.event_type, s.name, s.detached, s.event_id IS NOT NULL,
    s.event_id IS NOT NULL AND (s.claim_count > 0 OR greatest(s.target_timestamp_utc, s.ready_at) <= clock_timestamp()
        OR NOT EXISTS (SELECT FROM :"schema".queue q WHERE q.event_id = s.event_id)),
    s.key_unit, s.occurrence_key, coalesce(s.nominal_local, s.target_timestamp_local), :used
FROM unnest(@users::uuid[], @types::text[], @names::text[], @detached::text[]) AS n (user_id, event_type, name, detached)
CROSS JOIN LATERAL (
    SELECT x.*
    FROM :"schema".series x
    WHERE x.user_id = n.user_id AND x.event_type = n.event_type AND x.name = n.name AND x.detached = n.detached
    OFFSET 0
) s
