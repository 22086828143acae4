-- Restore series that were postponed, unless another program has tried them since. For the arrays see stall.sql.
UPDATE :"schema".unplanned u
SET last_error = nullif(n.last_error, ''), failures = n.failures, retry_at = n.retry_at
FROM unnest(@series::bigint[], @errors::text[], @failures::integer[], @retry_at::timestamptz[]) AS n (id, last_error, failures, retry_at)
WHERE u.series_id = n.id AND u.failures - 1 = n.failures
