-- List stalled series, the next to be tried of each type first.
--   @user uuid (NULL for all) · @limit integer
SELECT n.user_id, n.event_type, s.name, s.detached, s.target_timestamp_utc, coalesce(n.last_error, ''), n.failures, n.since, n.retry_at
FROM :"schema".unplanned n
JOIN :"schema".series s ON s.id = n.series_id
WHERE s.event_id IS NULL AND s.used_unit = n.used_unit AND s.used_key = n.used_key
    AND (@user::uuid IS NULL OR s.user_id = @user::uuid)
ORDER BY n.event_type, n.retry_at, n.user_id, n.series_id
LIMIT @limit
