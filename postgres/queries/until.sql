-- How long it is until the next event can be claimed, in microseconds; no row when no event is pending.
--   @types text[]
--   @mark timestamptz, as for claims
--   @from timestamptz (no visit that is due before it is left; NULL if unknown)
-- Events of lanes with names count as available when a visit of their lane is due.
-- A type that is paused is left out, unless its pause has an end: then its events wait for that.
-- An event of a lane with limits or a breaker can be claimed when the lane has room:
-- - a place. When one becomes free is not known, so this is asked again after half a second. A process that has ended events of the lane
--   asks at once.
-- - the tokens that come in a tenth of a second, so that its process claims ten times a second, and not for each event. Half of the burst
--   is enough, and at least one token.
-- After the clock was set back, a claim that a poll begins finds more tokens than are known here.
SELECT (extract(epoch FROM min(greatest(next.available_at, next.ready_at, CASE WHEN :paused THEN l.paused_until END)) - min(clock.read))::float8 * 1000000::float8)::bigint
FROM (SELECT clock_timestamp() AS read OFFSET 0) clock
CROSS JOIN pg_catalog.unnest(@types::text[]) AS t (name)
LEFT JOIN :"schema".lanes l ON l.name = t.name
LEFT JOIN LATERAL (
    SELECT CASE WHEN s.searched_at BETWEEN clock.read - interval '1 second' AND clock.read
            AND @mark::timestamptz > '0002-01-01 00:00:00+00' THEN s.since ELSE '-infinity' END AS since,
        greatest(
            s.full_at - (l.burst::float8 - greatest(1::float8, least(l.burst::float8 / 2::float8, l.rate / 10::float8))) / l.rate * interval '1 second',
            CASE WHEN s.retry_at <= clock.read + interval '61 minutes' THEN s.retry_at END, CASE WHEN l.daily <= :of_today_s THEN :tomorrow END,
            CASE WHEN least(l.places, s.allowed) <= (
                SELECT count(*)
                FROM unnest(s.held_series, s.held_ids, s.held_versions) AS h (id, event_id, version)
                CROSS JOIN LATERAL (
                    SELECT FROM :"schema".series x WHERE x.id = h.id AND x.event_id = h.event_id AND x.version = h.version OFFSET 0
                ) x
            ) THEN clock.read + interval '500 milliseconds' END
        ) AS ready_at
    FROM (SELECT n.full_at, n.held_series, n.held_ids, n.held_versions, n.since, n.searched_at, n.allowed, n.retry_at, n.day, n.of_day, n.of_eve FROM :"schema".lane_states n WHERE n.lane = t.name ORDER BY n.step DESC LIMIT 1) s
    WHERE :limited OR s.allowed IS NOT NULL
) lane ON true
CROSS JOIN LATERAL (
    (SELECT v.at AS available_at, NULL::timestamptz AS ready_at FROM :"schema".visits v WHERE v.scope = '' AND v.event_type = t.name AND v.pass = -1::float8
        AND v.at >= coalesce(@from::timestamptz, '-infinity') ORDER BY v.at LIMIT 1)
    UNION ALL
    (SELECT q.available_at, lane.ready_at
    FROM :"schema".queue q
    WHERE q.event_type = t.name AND q.lane = ''
        AND q.available_at >= CASE WHEN :paused THEN '-infinity' ELSE coalesce(lane.since, :since) END
    ORDER BY q.available_at, q.event_id
    LIMIT 1)
) next
WHERE NOT :paused OR l.paused_until IS NOT NULL
HAVING count(*) > 0
