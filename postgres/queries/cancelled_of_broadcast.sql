-- Find the next events of a broadcast that a stop has cancelled and that were not requeued yet, in the order of their ids.
--   @name text · @lane text · @reason text (how the reason begins) · @scan bigint (ended events to look at) · @limit bigint
-- Locks nothing. Returns their ids; the last event that was looked at, or NULL; and how many were looked at. Subqueries make the planner look
-- events up one by one.
WITH scanned AS MATERIALIZED (
    SELECT h.id, h.status
    FROM :"schema".history h
    WHERE h.lane = @lane::text AND h.origin IN ('scheduled', 'requeued') AND (h.lane = h.event_type || '/'::text || h.occurrence_key) IS TRUE
        AND h.id > coalesce((SELECT b.requeued FROM :"schema".broadcasts b WHERE b.name = @name::text), '00000000-0000-0000-0000-000000000000'::uuid)
    ORDER BY h.id
    LIMIT @scan::bigint
), picked AS MATERIALIZED (
    SELECT c.id
    FROM scanned c
    WHERE c.status = 'CANCELLED' AND (
        SELECT starts_with(h.failure_reason, @reason::text) AND (
                SELECT x.id
                FROM :"schema".series x
                WHERE x.user_id = h.user_id AND x.event_type = h.event_type AND x.name = h.series_name
                    AND x.detached = 'requeued:'::text || h.id::text
            ) IS NULL
        FROM :"schema".history h
        WHERE h.id = c.id
    )
    ORDER BY c.id
    LIMIT @limit::bigint
)
SELECT ARRAY (SELECT p.id FROM picked p ORDER BY p.id), (SELECT c.id FROM scanned c ORDER BY c.id DESC LIMIT 1), (SELECT count(*) FROM scanned)
