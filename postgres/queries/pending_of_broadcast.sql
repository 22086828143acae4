-- Lock the series of pending events of a broadcast, those that are due first, in the order of the series.
--   @type text · @lane text · @limit bigint
-- Returns the ids of the events. Waits for no lock: series that another transaction has locked are passed over.
SELECT s.event_id
FROM :"schema".series s
WHERE s.id = ANY (ARRAY (
    SELECT q.series_id
    FROM :"schema".queue q
    WHERE q.event_type = @type::text AND q.lane = @lane::text
    ORDER BY q.available_at, q.event_id
    LIMIT 2 * @limit::bigint
)) AND s.event_id IS NOT NULL
ORDER BY s.id
LIMIT @limit::bigint
FOR NO KEY UPDATE SKIP LOCKED
