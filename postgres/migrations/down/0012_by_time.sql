DROP VIEW :"schema".events;
DROP VIEW :"schema".ended_events;
DROP VIEW :"schema".processing_events;
DROP VIEW :"schema".pending_events;

DROP INDEX :"schema".history_due;

ALTER TABLE :"schema".queue DROP COLUMN delayed_from;

CREATE VIEW :"schema".pending_events AS
SELECT
    q.event_id AS id, s.user_id, q.event_type, s.occurrence_key, 'PENDING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version, q.available_at,
    NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason, s.last_error, s.retry_count,
    s.claim_count, s.crash_count, s.version, s.created_at, s.updated_at, s.requeued_from
FROM :"schema".queue q
JOIN :"schema".series s ON s.id = q.series_id AND q.event_id BETWEEN s.event_id AND s.event_id;

-- OFFSET 0 has each series looked up by its id: nobody knows how many a lease lists, and statistics would have the table read.
CREATE VIEW :"schema".processing_events AS
SELECT
    held.event_id AS id, s.user_id, s.event_type, s.occurrence_key, 'PROCESSING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version,
    NULL::timestamptz AS available_at, l.token AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason,
    s.last_error, s.retry_count, s.claim_count + 1 AS claim_count, s.crash_count, s.version + 1 AS version, s.created_at,
    l.claimed_at AS updated_at, s.requeued_from
FROM :"schema".leases l
CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
CROSS JOIN LATERAL (
    SELECT
        x.user_id, x.event_type, x.occurrence_key, x.target_timestamp_utc, x.target_timestamp_local, x.target_timezone, x.policies,
        x.idempotency_key, x.delivery_payload, x.user_version, x.last_error, x.retry_count, x.claim_count, x.crash_count, x.version,
        x.created_at, x.requeued_from
    FROM :"schema".series x
    WHERE x.id = held.series_id
        AND x.event_id = held.event_id
        AND x.version = held.version
    OFFSET 0
) s;

CREATE VIEW :"schema".ended_events AS
SELECT
    h.id, h.user_id, h.event_type, h.occurrence_key, h.status, h.target_timestamp_utc,
    h.target_timestamp_local, h.target_timezone, h.policies, h.idempotency_key, h.delivery_payload, h.user_version,
    NULL::timestamptz AS available_at, h.lease_token, h.executed_at, h.failure_reason, h.last_error, h.retry_count,
    h.claim_count, h.crash_count, h.version, h.created_at, h.updated_at, h.requeued_from
FROM :"schema".history h;

CREATE VIEW :"schema".events AS
SELECT * FROM :"schema".pending_events
UNION ALL
SELECT * FROM :"schema".processing_events
UNION ALL
SELECT * FROM :"schema".ended_events;

REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON :"schema".pending_events, :"schema".processing_events,
    :"schema".ended_events, :"schema".events FROM PUBLIC;

COMMENT ON VIEW :"schema".events IS 'What people are owed and what became of it, one row per event';

COMMENT ON TABLE :"schema".migrations IS NULL;
COMMENT ON INDEX :"schema".migrations_pkey IS NULL;
COMMENT ON INDEX :"schema".users_pkey IS NULL;
COMMENT ON INDEX :"schema".users_deleted IS NULL;
COMMENT ON INDEX :"schema".series_pkey IS NULL;
COMMENT ON INDEX :"schema".series_name_key IS NULL;
COMMENT ON INDEX :"schema".series_open IS NULL;
COMMENT ON INDEX :"schema".queue_due IS NULL;
COMMENT ON INDEX :"schema".queue_event IS NULL;
COMMENT ON INDEX :"schema".history_pkey IS NULL;
COMMENT ON INDEX :"schema".history_user IS NULL;
COMMENT ON INDEX :"schema".history_failed IS NULL;
COMMENT ON INDEX :"schema".unplanned_pkey IS NULL;
COMMENT ON INDEX :"schema".unplanned_user IS NULL;
COMMENT ON INDEX :"schema".keys_pkey IS NULL;
COMMENT ON INDEX :"schema".leases_pkey IS NULL;
COMMENT ON INDEX :"schema".zone_rules_pkey IS NULL;
COMMENT ON INDEX :"schema".zone_marks_pkey IS NULL;
COMMENT ON INDEX :"schema".pauses_pkey IS NULL;
COMMENT ON INDEX :"schema".audit_pkey IS NULL;
COMMENT ON INDEX :"schema".audit_event IS NULL;
COMMENT ON INDEX :"schema".audit_user IS NULL;
COMMENT ON INDEX :"schema".outbox_pkey IS NULL;
COMMENT ON INDEX :"schema".outbox_consumers_pkey IS NULL;
