-- How many events start before a PENDING event, in its lane.
--   @event_type text · @lane text ('' for the lane of the type) · @at timestamptz, @id uuid (of the event)
--   @limit bigint (the most events to count of a type)
-- Returns the time, how many events are before it, at most the limit, and whether there are more. Then it returns the pause of the type,
-- NULL if there is none. There is no row if the event is not PENDING as given, or is not available.
SELECT clock_timestamp(), least(b.n, @limit::numeric)::bigint, b.n > @limit::numeric, p.since, p.until, p.reason, p.author
FROM :"schema".queue e
CROSS JOIN LATERAL (
    SELECT coalesce(sum(q.n), 0::numeric) AS n
    FROM pg_catalog.unnest(:queued_types) AS t (name)
    CROSS JOIN LATERAL (
        SELECT count(*) AS n
        FROM (
            SELECT q.event_id
            FROM :"schema".queue q
            WHERE q.event_type = t.name AND q.lane = e.lane AND (q.available_at, q.event_id) < (e.available_at, e.event_id)
            LIMIT @limit::bigint + 1::bigint
        ) q
    ) q
    WHERE e.lane <> '' OR t.name = e.event_type
) b
LEFT JOIN LATERAL (
    SELECT l.paused_since AS since, l.paused_until AS until, coalesce(l.pause_reason, '') AS reason, coalesce(l.pause_author, '') AS author
    FROM :"schema".lanes l
    WHERE l.name = e.event_type AND :paused
) p ON true
WHERE e.event_type = @event_type AND e.lane = @lane AND e.available_at = @at AND e.event_id = @id AND e.available_at <= now()
