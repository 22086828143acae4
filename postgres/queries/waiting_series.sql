-- Lock the stalled series of users that are to be tried again, in the order of their ids. Series that are locked are left out.
--   @type text · @users uuid[] · @series bigint[] (NULL for those with retry_at in the past)
-- Returns for each series: its user, its name and the column detached. Then the unit, the key and the target of its last event, the last
-- error, the failed attempts, since when it has stalled, and when it is tried again. The last two columns are whether it still stalls (an
-- event may have been stored in it since), and its used keys (see usedText in statements.go).
SELECT n.series_id, n.user_id, s.name, s.detached, n.used_unit, n.used_key, s.target_timestamp_utc, coalesce(n.last_error, ''),
    n.failures, n.since, n.retry_at,
    s.event_id IS NULL AND s.used_unit = n.used_unit AND s.used_key = n.used_key, :used
FROM :"schema".unplanned n
JOIN :"schema".series s ON s.id = n.series_id
WHERE n.event_type = @type AND s.user_id = ANY (@users::uuid[])
    AND CASE WHEN @series::bigint[] IS NULL THEN n.retry_at <= clock_timestamp() ELSE n.series_id = ANY (@series::bigint[]) END
ORDER BY s.id
FOR UPDATE OF s SKIP LOCKED
