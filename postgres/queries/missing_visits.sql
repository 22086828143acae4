-- Add the visits that lanes lack, and those of the lanes that these are in. Visits are only missing if a host's transaction stayed open for
-- longer than a minute, or if they were deleted by hand.
-- Returns nothing.
WITH of_type AS MATERIALIZED (
    SELECT t.name, of_type.lane, nullif(pg_catalog.split_part(of_type.lane, '/'::text, 1), of_type.lane) AS upper
    FROM pg_catalog.unnest(:queued_types) AS t (name)
    CROSS JOIN LATERAL pg_catalog.unnest(:lanes_of_t) AS of_type (lane)
    WHERE of_type.lane <> ''
), lost AS MATERIALIZED (
    SELECT l.name, l.lane, l.upper, q.available_at
    FROM of_type l
    CROSS JOIN LATERAL (
        SELECT o.available_at
        FROM :"schema".queue o
        WHERE o.event_type = l.name AND o.lane = l.lane
        ORDER BY o.available_at, o.event_id
        LIMIT 1
    ) q
    WHERE NOT EXISTS (
        SELECT FROM :"schema".visits v WHERE v.lane = l.lane AND v.event_type = l.name AND v.since <= q.available_at
    )
)
INSERT INTO :"schema".visits (scope, event_type, at, lane, since, turn)
SELECT coalesce(lost.upper, ''), lost.name, lost.available_at, lost.lane, lost.available_at, NULL::float8
FROM lost
UNION ALL
SELECT '', upper.name, min(upper.at), upper.lane, '-infinity', -1::float8
FROM (
    SELECT lost.name, lost.upper AS lane, lost.available_at AS at
    FROM lost
    WHERE lost.upper IS NOT NULL
    UNION ALL
    SELECT l.name, l.upper, next.at
    FROM of_type l
    CROSS JOIN LATERAL (
        SELECT v.at FROM :"schema".visits v WHERE v.lane = l.lane AND v.event_type = l.name ORDER BY v.at LIMIT 1
    ) next
    WHERE l.upper IS NOT NULL AND NOT EXISTS (
        SELECT
        FROM :"schema".visits v
        WHERE v.scope = '' AND v.lane = l.upper AND v.event_type = l.name AND (v.turn >= 0::float8 OR v.turn = -1::float8 AND v.since <= next.at)
    )
) upper
GROUP BY upper.name, upper.lane
