-- Count the next ended events of a broadcast, by zone and status, in the order of their ids. Those that were pruned or deleted count, too.
--   @name text · @lane text · @limit bigint
-- Returns for each zone how many are COMPLETED, FAILED and CANCELLED; and each time the last event, and how many were counted in all.
WITH at AS MATERIALIZED (
    SELECT b.created_at, coalesce(b.counted, '00000000-0000-0000-0000-000000000000'::uuid) AS id
    FROM :"schema".broadcasts b
    WHERE b.name = @name::text
), counted AS MATERIALIZED (
    (
        SELECT h.id, h.target_timezone AS zone, h.status
        FROM :"schema".history h
        WHERE h.lane = @lane::text AND h.origin IN ('scheduled', 'requeued') AND (h.lane = h.event_type || '/'::text || h.occurrence_key) IS TRUE
            AND h.id > (SELECT at.id FROM at)
        ORDER BY h.id
        LIMIT @limit::bigint
    )
    UNION ALL
    (
        SELECT r.id, r.zone, r.status
        FROM :"schema".broadcast_removed r
        WHERE r.broadcast = @name::text AND r.created_at = (SELECT at.created_at FROM at) AND r.id > (SELECT at.id FROM at)
        ORDER BY r.id
        LIMIT @limit::bigint
    )
    ORDER BY 1
    LIMIT @limit::bigint
)
SELECT c.zone, count(*) FILTER (WHERE c.status = 'COMPLETED'), count(*) FILTER (WHERE c.status = 'FAILED'),
    count(*) FILTER (WHERE c.status = 'CANCELLED'), (SELECT l.id FROM counted l ORDER BY l.id DESC LIMIT 1), (SELECT count(*) FROM counted)
FROM counted c
GROUP BY c.zone
