-- End pending events that nobody delivers, of series that the transaction has locked. It is undone when one is missing.
-- Parallel arrays, one element per event:
--   @ids uuid[] · @versions integer[] (the versions after) · @tokens uuid[] · @failures text[]
-- Returns the ids of those that were two versions before and PENDING. They count as claimed, and no attempt is counted.
WITH n AS MATERIALIZED (
    SELECT *
    FROM unnest(@ids::uuid[], @versions::integer[], @tokens::uuid[], @failures::text[]) AS n (id, version, token, failure_reason)
), taken AS (
    DELETE FROM :"schema".queue q
    WHERE q.event_id = ANY (ARRAY (SELECT n.id FROM n))
    RETURNING q.series_id, q.event_id
), ended AS (
    UPDATE :"schema".series s
    SET event_id = NULL,
        used_key = s.occurrence_key,
        updated_at = clock_timestamp()
    FROM taken
    JOIN n ON n.id = taken.event_id
    WHERE s.id = taken.series_id
        AND s.version = n.version - 2
    RETURNING n.*, s.user_id, s.event_type, s.occurrence_key, s.target_timestamp_utc, s.target_timestamp_local, s.target_timezone,
        s.policies, s.idempotency_key, s.delivery_payload, s.user_version, s.last_error, s.retry_count, s.claim_count, s.crash_count,
        s.created_at
), kept AS (
    INSERT INTO :"schema".history (
        id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local, target_timezone, policies,
        idempotency_key, delivery_payload, user_version, lease_token, failure_reason, last_error, retry_count, claim_count, crash_count,
        version, created_at, updated_at)
    SELECT
        id, user_id, event_type, occurrence_key, 'FAILED', target_timestamp_utc, target_timestamp_local, target_timezone, policies,
        idempotency_key, delivery_payload, user_version, token, failure_reason, last_error, retry_count, claim_count + 1, crash_count,
        version, created_at, clock_timestamp()
    FROM ended
)
SELECT ended.id
FROM ended
