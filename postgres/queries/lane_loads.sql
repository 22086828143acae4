-- The lanes that have limits or a weight, or whose breaker is not closed, in alphabetical order, with what waits for them.
--   @limit integer (the most events to count of a type in a lane)
-- Returns the settings, how many events are available up to the limit, since when the first of them is, how many events of the state are
-- still in flight, when the lane has a token, or NULL if it has one, the breaker, NULL if it is closed, and how many events have started in each
-- five minutes of the last hour, the present ones first. An event counts for its lane and for the one that this is in.
WITH lane AS MATERIALIZED (
    SELECT n.name, l.rate, l.burst, l.places, l.daily, l.weight
    FROM (
        SELECT l.name FROM :"schema".lanes l WHERE :limited OR l.weight IS NOT NULL
        UNION
        SELECT s.lane FROM :"schema".lane_states s WHERE s.allowed IS NOT NULL
    ) n
    LEFT JOIN :"schema".lanes l ON l.name = n.name
), range AS MATERIALIZED (
    SELECT t.name AS event_type, of_type.lane AS key, lane.name
    FROM pg_catalog.unnest(:queued_types) AS t (name)
    CROSS JOIN LATERAL pg_catalog.unnest(:lanes_of_t) AS of_type (lane)
    CROSS JOIN LATERAL (
        VALUES (CASE WHEN of_type.lane = '' THEN t.name ELSE of_type.lane END), (nullif(pg_catalog.split_part(of_type.lane, '/'::text, 1), of_type.lane))
    ) AS x (name)
    JOIN lane ON lane.name = x.name
), waiting AS MATERIALIZED (
    SELECT r.name, least(sum(q.n), @limit::numeric)::bigint AS n, min(q.oldest) AS oldest
    FROM (SELECT DISTINCT range.event_type, range.key FROM range) d
    CROSS JOIN LATERAL (
        SELECT count(*) AS n, min(o.available_at) AS oldest
        FROM (
            SELECT q.available_at
            FROM :"schema".queue q
            WHERE q.event_type = d.event_type AND q.lane = d.key AND q.available_at <= now()
            ORDER BY q.available_at, q.event_id
            LIMIT @limit
        ) o
    ) q
    JOIN range r ON r.event_type = d.event_type AND r.key = d.key
    GROUP BY r.name
)
SELECT l.name, coalesce(l.rate, 0::float8), coalesce(l.burst, 0), coalesce(l.places, 0), coalesce(l.daily, 0), coalesce(l.weight, 0), coalesce(w.n, 0::bigint), w.oldest,
    (
        SELECT count(*)
        FROM unnest(s.held_series, s.held_ids, s.held_versions) AS h (id, event_id, version)
        CROSS JOIN LATERAL (
            SELECT FROM :"schema".series x WHERE x.id = h.id AND x.event_id = h.event_id AND x.version = h.version OFFSET 0
        ) x
    ),
    CASE WHEN token.at > clock_timestamp() THEN token.at END, s.allowed, s.retry_at, s.opened_at, s.failures,
    (pg_catalog.array_cat(pg_catalog.array_fill(0, ARRAY[coalesce(s.passed, 0)]), s.started))[1:12]
FROM lane l
LEFT JOIN waiting w ON w.name = l.name
LEFT JOIN LATERAL (
    SELECT n.full_at, n.held_series, n.held_ids, n.held_versions, n.allowed, n.retry_at, n.opened_at, n.failures, n.started,
        CASE WHEN past.slots BETWEEN 0 AND 11 THEN past.slots ELSE 12 END AS passed
    FROM :"schema".lane_states n
    CROSS JOIN LATERAL (SELECT floor(pg_catalog.date_part('epoch'::text, clock_timestamp()) / 300::float8)::integer - n.slot AS slots) past
    WHERE n.lane = l.name
    ORDER BY n.step DESC
    LIMIT 1
) s ON true
CROSS JOIN LATERAL (
    SELECT s.full_at - (l.burst::float8 - 1::float8) / l.rate * interval '1 second' AS at
) token
ORDER BY l.name
