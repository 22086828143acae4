-- Store outcomes. Parallel arrays, one element per event:
--   @ids uuid[] · @versions integer[] · @tokens uuid[]: the fence; a row that is not as it was claimed is left alone
--   @statuses text[] · @available timestamptz[] · @executed timestamptz[] · @failures text[] · @errors text[] · @retries integer[] · @crashes integer[]
-- A terminal update touches no indexed column but that of a failure, and keeps the token that ended the event: it is how
-- an outcome is recognised whose commit went unanswered.
-- The fence lets through PROCESSING rows only, since whatever ends or gives back a row raises its version. To ask for the status
-- too would mislead: statistics know of next to no PROCESSING rows, and each row would be compared with the whole list. The ids
-- stand there once more as an array whose length the planner does not know, which keeps it from reading the whole table.
-- Returns the rows that took effect.
UPDATE :"schema".events e
SET status = n.status,
    available_at = n.available_at,
    lease_token = CASE WHEN n.status <> 'PENDING' THEN e.lease_token END,
    executed_at = n.executed_at,
    failure_reason = n.failure_reason,
    last_error = coalesce(n.last_error, e.last_error),
    retry_count = e.retry_count + n.retries,
    crash_count = e.crash_count + n.crashes,
    version = e.version + 1,
    updated_at = clock_timestamp()
FROM unnest(
    @ids::uuid[], @versions::integer[], @tokens::uuid[], @statuses::text[], @available::timestamptz[], @executed::timestamptz[],
    @failures::text[], @errors::text[], @retries::integer[], @crashes::integer[]
) AS n (id, version, token, status, available_at, executed_at, failure_reason, last_error, retries, crashes)
WHERE e.id = ANY (ARRAY (SELECT unnest(@ids::uuid[])))
    AND e.id = n.id
    AND e.version = n.version
    AND e.lease_token = n.token
RETURNING :event
