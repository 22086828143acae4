-- List stalled series, the next to be tried of each type first.
--   @users uuid[] (NULL for all) · @limit integer (NULL for none)
SELECT n.user_id, n.event_type, s.name, s.detached, s.target_timestamp_utc, coalesce(n.last_error, ''), n.failures, n.since, n.retry_at
FROM :"schema".unplanned n
JOIN :"schema".series s ON s.id = n.series_id
WHERE s.event_id IS NULL AND s.used_unit = n.used_unit AND s.used_key = n.used_key
    AND (@users::uuid[] IS NULL OR n.user_id = ANY (@users::uuid[]))
ORDER BY n.event_type, n.retry_at, n.user_id, n.series_id
LIMIT @limit
