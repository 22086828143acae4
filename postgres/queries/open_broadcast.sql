-- Whether a broadcast has events that are PENDING, from the place on that a stop has come to, and events that are PROCESSING.
--   @name text · @type text · @lane text
-- Returns these, and whether the place is not the beginning. Subqueries make the planner look series up one by one.
SELECT EXISTS (
        SELECT
        FROM :"schema".queue q
        WHERE q.event_type = @type::text AND q.lane = @lane::text
            AND (q.available_at, q.event_id)
                > (coalesce(b.cancel_at, '-infinity'::timestamptz), coalesce(b.cancel_id, '00000000-0000-0000-0000-000000000000'::uuid))
            AND (SELECT s.occurrence_key FROM :"schema".series s WHERE s.id = q.series_id) = @name::text
    ),
    EXISTS (SELECT FROM :"schema".processing_events e WHERE e.event_type = @type::text AND e.lane = @lane::text AND e.occurrence_key = @name::text),
    b.cancel_id IS NOT NULL
FROM :"schema".broadcasts b
WHERE b.name = @name::text
