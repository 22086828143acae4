-- Store series that have stalled. Parallel arrays, one element per series:
--   @series bigint[] · @units text[] · @keys text[] (of their last events) · @errors text[] · @failures integer[] · @since timestamptz[]
--   @retry_at timestamptz[]
-- A series that has an open event, or has used up another key, has not stalled and is left out. The transaction has locked the series.
INSERT INTO :"schema".unplanned (series_id, user_id, event_type, used_unit, used_key, last_error, failures, since, retry_at)
SELECT s.id, s.user_id, s.event_type, s.used_unit, s.used_key, nullif(n.last_error, ''), n.failures, n.since, n.retry_at
FROM unnest(
    @series::bigint[], @units::text[], @keys::text[], @errors::text[], @failures::integer[], @since::timestamptz[], @retry_at::timestamptz[]
) AS n (series_id, used_unit, used_key, last_error, failures, since, retry_at)
JOIN :"schema".series s ON s.id = n.series_id
WHERE s.event_id IS NULL AND s.used_unit = n.used_unit AND s.used_key = n.used_key
ON CONFLICT (series_id) DO UPDATE
SET used_unit = excluded.used_unit, used_key = excluded.used_key, last_error = excluded.last_error, failures = excluded.failures,
    since = excluded.since, retry_at = excluded.retry_at
