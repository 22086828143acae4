-- Give back events that the transaction has locked under leases that it took away. The events of a deleted user end instead.
-- None is available before its target, though the clock may have been set back since it was claimed.
--   @ids uuid[] · @crashes integer (what to add to crash_count) · @reason text · @deleted text (the reason to end)
-- Returns the rows.
UPDATE :"schema".events e
SET status = CASE WHEN u.deleted_at IS NULL THEN 'PENDING' ELSE 'FAILED' END,
    available_at = CASE WHEN u.deleted_at IS NULL THEN greatest(clock_timestamp(), e.target_timestamp_utc) END,
    lease_token = CASE WHEN u.deleted_at IS NOT NULL THEN e.lease_token END,
    failure_reason = CASE WHEN u.deleted_at IS NOT NULL THEN @deleted::text END,
    last_error = CASE WHEN u.deleted_at IS NULL THEN @reason::text ELSE e.last_error END,
    retry_count = CASE WHEN u.deleted_at IS NULL THEN e.retry_count ELSE e.retry_count + 1 END,
    crash_count = CASE WHEN u.deleted_at IS NULL THEN e.crash_count + @crashes::integer ELSE e.crash_count END,
    version = e.version + 1,
    updated_at = clock_timestamp()
FROM :"schema".users u
WHERE e.id = ANY (@ids::uuid[])
    AND u.id = e.user_id
RETURNING :event
