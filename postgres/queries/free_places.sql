-- Make visits due that wait for a place of a lane, after events of the lane have left theirs.
--   @lanes text[]
WITH due AS (
    UPDATE :"schema".visits v
    SET at = clock_timestamp()
    WHERE v.ctid = ANY (ARRAY (
        SELECT w.ctid
        FROM (
            SELECT DISTINCT x.lane
            FROM pg_catalog.unnest(@lanes::text[]) AS t (name)
            LEFT JOIN :"schema".lanes l ON l.name = t.name
            LEFT JOIN LATERAL (
                SELECT n.allowed FROM :"schema".lane_states n WHERE n.lane = t.name ORDER BY n.step DESC LIMIT 1
            ) b ON true
            CROSS JOIN LATERAL (VALUES (t.name), (pg_catalog.split_part(t.name, '/'::text, 1))) AS x (lane)
            WHERE l.places IS NOT NULL OR b.allowed IS NOT NULL
        ) f
        CROSS JOIN LATERAL (
            SELECT o.ctid
            FROM :"schema".visits o
            WHERE o.lane = f.lane AND o.at > now() AND o.at <= now() + interval '2 seconds' AND o.since <= now()
            FOR UPDATE SKIP LOCKED
        ) w
    ))
    RETURNING v.scope, v.event_type, v.at
)
INSERT INTO :"schema".visits (scope, event_type, at, lane, since, turn)
SELECT '', due.event_type, max(due.at), due.scope, min(due.at), -1::float8
FROM due
WHERE due.scope <> ''
GROUP BY due.scope, due.event_type
