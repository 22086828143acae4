-- Each type is a range of its own, so that what waits of one is not in the way of another.
CREATE INDEX queue_due ON :"schema".queue (event_type, available_at, event_id);

DROP INDEX :"schema".queue_available;

-- The type as the queue has it, for the sake of that index.
CREATE OR REPLACE VIEW :"schema".pending_events AS
SELECT
    q.event_id AS id, s.user_id, q.event_type, s.occurrence_key, 'PENDING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version, q.available_at,
    NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason, s.last_error, s.retry_count,
    s.claim_count, s.crash_count, s.version, s.created_at, s.updated_at
FROM :"schema".queue q
JOIN :"schema".series s ON s.id = q.series_id AND q.event_id BETWEEN s.event_id AND s.event_id;
