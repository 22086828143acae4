-- Find the next pending events of a broadcast, those that are due first, after the place that a stop has come to: entries of events that were
-- cancelled before stay in the index as long as an old transaction may see them.
--   @name text · @type text · @lane text · @limit bigint
-- Locks nothing. Returns the ids of the events, and available_at and the id of the last one.
WITH at AS MATERIALIZED (
    SELECT coalesce(b.cancel_at, '-infinity'::timestamptz) AS available_at, coalesce(b.cancel_id, '00000000-0000-0000-0000-000000000000'::uuid) AS event_id
    FROM :"schema".broadcasts b
    WHERE b.name = @name::text
), next AS MATERIALIZED (
    SELECT q.available_at, q.event_id
    FROM :"schema".queue q
    WHERE q.event_type = @type::text AND q.lane = @lane::text
        AND (q.available_at, q.event_id) > ((SELECT at.available_at FROM at), (SELECT at.event_id FROM at))
    ORDER BY q.available_at, q.event_id
    LIMIT @limit::bigint
)
SELECT ARRAY (SELECT n.event_id FROM next n), n.available_at, n.event_id
FROM next n
ORDER BY n.available_at DESC, n.event_id DESC
LIMIT 1
