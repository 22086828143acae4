-- Replace an event that the transaction has locked and judged.
--   @id uuid · @version integer (the version before) · the columns by their names; null where they have no value
-- Returns the row.
UPDATE :"schema".events e
SET occurrence_key = @occurrence_key,
    status = @status,
    target_timestamp_utc = @due,
    target_timestamp_local = @wall,
    target_timezone = @zone,
    policies = @policies,
    delivery_payload = @payload::text::jsonb,
    user_version = @user_version,
    available_at = @available_at,
    lease_token = @lease_token,
    executed_at = @executed_at,
    failure_reason = @failure_reason,
    last_error = @last_error,
    retry_count = @retry_count,
    claim_count = @claim_count,
    crash_count = @crash_count,
    version = e.version + 1,
    updated_at = clock_timestamp()
WHERE e.id = @id
    AND e.version = @version
RETURNING :event
