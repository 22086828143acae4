-- The lanes that have limits or a weight, are paused, or whose breaker is not closed, in alphabetical order, with what waits for them.
--   @lanes text[] (only these lanes, also without any of that; NULL for all)
--   @limit bigint (the most events to count of a type in a lane)
--   @all bigint (the most to count in all lanes with more than five events)
-- If so many lanes have more than five events that fifty of each exceed @all, five of each are counted. An event counts for its lane, and
-- for the lane that contains it.
-- Returns a row for each lane. The columns, in this order:
--   Its settings.
--   How many events are available, whether there are more than were counted, and since when the first of them is available.
--   The sum of the weights of the lanes in this one that have available events. The lane itself counts as 1.
--   How many events of the state are in flight.
--   When the lane has a token next. It is NULL if it has one.
--   How many events have started today.
--   The breaker. It is NULL if it is closed.
--   The pause. It is NULL if there is none.
--   How many events have started in each five minutes of the last hour, newest first.
WITH lane AS MATERIALIZED (
    SELECT n.name, l.rate, l.burst, l.places, l.daily, l.weight, p.since AS paused_since, p.until AS paused_until, p.reason AS pause_reason, p.author AS pause_author
    FROM (
        SELECT l.name FROM :"schema".lanes l WHERE @lanes::text[] IS NULL AND (:limited OR l.weight IS NOT NULL OR :paused)
        UNION
        SELECT s.lane FROM :"schema".lane_states s WHERE @lanes::text[] IS NULL AND s.allowed IS NOT NULL
        UNION
        SELECT pg_catalog.unnest(@lanes::text[])
    ) n
    LEFT JOIN :"schema".lanes l ON l.name = n.name
    LEFT JOIN LATERAL (
        SELECT l.paused_since AS since, l.paused_until AS until, coalesce(l.pause_reason, '') AS reason, coalesce(l.pause_author, '') AS author WHERE :paused
    ) p ON true
), range AS MATERIALIZED (
    SELECT t.name AS event_type, of_type.lane AS key, x.own, x.upper
    FROM pg_catalog.unnest(:queued_types) AS t (name)
    CROSS JOIN LATERAL pg_catalog.unnest(:lanes_of_t) AS of_type (lane)
    CROSS JOIN LATERAL (
        SELECT CASE WHEN of_type.lane = '' THEN t.name ELSE of_type.lane END AS own, nullif(pg_catalog.split_part(of_type.lane, '/'::text, 1), of_type.lane) AS upper
    ) x
    WHERE x.own IN (SELECT lane.name FROM lane) OR x.upper IN (SELECT lane.name FROM lane)
), few AS MATERIALIZED (
    SELECT r.*, q.n, q.oldest
    FROM range r
    CROSS JOIN LATERAL (
        SELECT count(*) AS n, min(o.available_at) AS oldest
        FROM (
            SELECT q.available_at
            FROM :"schema".queue q
            WHERE q.event_type = r.event_type AND q.lane = r.key AND q.available_at <= now()
            ORDER BY q.available_at, q.event_id
            LIMIT 6
        ) o
    ) q
    WHERE q.n > 0
), counted AS MATERIALIZED (
    SELECT f.own, f.upper, sum(least(greatest(f.n, m.n), f.most)) AS n, bool_or(greatest(f.n, m.n) > f.most) AS is_cut, min(f.oldest) AS oldest
    FROM (
        SELECT few.*, CASE WHEN part.of_all < 50 THEN 5 ELSE least(@limit::bigint, part.of_all) END AS most
        FROM few
        CROSS JOIN (SELECT @all::bigint / greatest(1, count(*)) AS of_all FROM few WHERE few.n > 5) part
    ) f
    CROSS JOIN LATERAL (
        SELECT count(*) AS n
        FROM (
            SELECT q.available_at
            FROM :"schema".queue q
            WHERE q.event_type = f.event_type AND q.lane = f.key AND q.available_at <= now()
            ORDER BY q.available_at, q.event_id
            LIMIT CASE WHEN f.n > 5 AND f.most > 5 THEN f.most + 1 ELSE 0 END
        ) o
    ) m
    GROUP BY f.own, f.upper
), waiting AS MATERIALIZED (
    SELECT x.name, sum(c.n)::bigint AS n, bool_or(c.is_cut) AS is_cut, min(c.oldest) AS oldest,
        sum(CASE WHEN c.own = x.name THEN 1 ELSE coalesce(w.weight, 1) END)::integer AS weights
    FROM counted c
    LEFT JOIN :"schema".lanes w ON w.name = c.own
    CROSS JOIN LATERAL (VALUES (c.own), (c.upper)) AS x (name)
    GROUP BY x.name
)
SELECT l.name, coalesce(l.rate, 0::float8), coalesce(l.burst, 0), coalesce(l.places, 0), coalesce(l.daily, 0), coalesce(l.weight, 0),
    coalesce(w.n, 0::bigint), coalesce(w.is_cut, false), w.oldest, coalesce(w.weights, 0),
    (
        SELECT count(*)
        FROM unnest(s.held_series, s.held_ids, s.held_versions) AS h (id, event_id, version)
        CROSS JOIN LATERAL (
            SELECT FROM :"schema".series x WHERE x.id = h.id AND x.event_id = h.event_id AND x.version = h.version OFFSET 0
        ) x
    ),
    CASE WHEN token.at > clock.read THEN token.at END, coalesce(:of_today_s, 0), s.allowed, s.retry_at, s.opened_at, s.failures,
    l.paused_since, l.paused_until, l.pause_reason, l.pause_author,
    (pg_catalog.array_cat(pg_catalog.array_fill(0, ARRAY[coalesce(s.passed, 0)]), s.started))[1:12]
FROM lane l
CROSS JOIN (SELECT clock_timestamp() AS read) clock
LEFT JOIN waiting w ON w.name = l.name
LEFT JOIN LATERAL (
    SELECT n.full_at, n.day, n.of_day, n.of_eve, n.held_series, n.held_ids, n.held_versions, n.allowed, n.retry_at, n.opened_at, n.failures, n.started,
        CASE WHEN past.slots BETWEEN 0 AND 11 THEN past.slots ELSE 12 END AS passed
    FROM :"schema".lane_states n
    CROSS JOIN LATERAL (SELECT floor(pg_catalog.date_part('epoch'::text, clock.read) / 300::float8)::integer - n.slot AS slots) past
    WHERE n.lane = l.name
    ORDER BY n.step DESC
    LIMIT 1
) s ON true
CROSS JOIN LATERAL (
    SELECT s.full_at - (l.burst::float8 - 1::float8) / l.rate * interval '1 second' AS at
) token
ORDER BY l.name
