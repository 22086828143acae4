-- A page of the users who have stalled series of an event type that are to be tried again.
--   @type text · @at timestamptz · @after uuid (where the page before ended) · @limit integer
-- Returns the time of the attempt and the user. A user may be in several pages.
SELECT DISTINCT n.retry_at, n.user_id
FROM :"schema".unplanned n
WHERE n.event_type = @type
    AND n.retry_at <= clock_timestamp()
    AND (n.retry_at, n.user_id) > (@at::timestamptz, @after::uuid)
ORDER BY n.retry_at, n.user_id
LIMIT @limit
