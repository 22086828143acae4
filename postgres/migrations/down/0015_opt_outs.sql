-- Programs of this release must be stopped. Users are owed again what they have refused, when they are next rescheduled.
-- Loses users WHERE opt_outs IS NOT NULL
-- Loses series WHERE forced
-- Loses history WHERE forced
-- Loses audit WHERE event_id IS NULL
DROP TRIGGER IF EXISTS users_audit ON :"schema".users;
DROP TRIGGER IF EXISTS users_audit_changed ON :"schema".users;

DROP FUNCTION :"schema".audit_user();

DELETE FROM :"schema".audit WHERE event_id IS NULL;

ALTER TABLE :"schema".audit
    ALTER COLUMN event_id SET NOT NULL,
    ALTER COLUMN event_type SET NOT NULL;

ALTER TABLE :"schema".users DROP COLUMN opt_outs;

DROP VIEW :"schema".events;
DROP VIEW :"schema".ended_events;
DROP VIEW :"schema".processing_events;
DROP VIEW :"schema".pending_events;

DROP TRIGGER series_guard ON :"schema".series;

ALTER TABLE :"schema".series DROP COLUMN forced;

ALTER TABLE :"schema".history DROP COLUMN forced;

CREATE TRIGGER series_guard AFTER UPDATE ON :"schema".series FOR EACH ROW
WHEN (
    NEW.id <> OLD.id
    OR NEW.user_id <> OLD.user_id
    OR NEW.event_type <> OLD.event_type
    OR NEW.name <> OLD.name
    OR NEW.detached <> OLD.detached
    OR NEW.used_key < OLD.used_key
    OR NEW.origin IS DISTINCT FROM OLD.origin
    OR (NEW.event_id IS DISTINCT FROM OLD.event_id AND NEW.event_id IS NOT NULL
        AND (NEW.version <> 1 OR NEW.claim_count <> 0 OR NEW.occurrence_key <= NEW.used_key OR NEW.origin = 'requeued'))
    OR (NEW.event_id = OLD.event_id AND (
        NEW.version NOT BETWEEN OLD.version AND OLD.version + 2
        OR NEW.idempotency_key <> OLD.idempotency_key
        OR NEW.origin_event IS DISTINCT FROM OLD.origin_event
        OR NEW.follows_user IS DISTINCT FROM OLD.follows_user
        OR NEW.payload_made IS DISTINCT FROM OLD.payload_made
        OR ((NEW.version = OLD.version OR OLD.claim_count > 0) AND (
            NEW.target_timestamp_utc <> OLD.target_timestamp_utc
            OR NEW.target_timestamp_local <> OLD.target_timestamp_local
            OR NEW.target_timezone <> OLD.target_timezone
            OR NEW.occurrence_key <> OLD.occurrence_key))))
)
EXECUTE FUNCTION :"schema".refuse_change();

CREATE VIEW :"schema".pending_events AS
SELECT
    q.event_id AS id, s.user_id, q.event_type, s.occurrence_key, 'PENDING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version, q.available_at,
    NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason, s.last_error, s.retry_count,
    s.claim_count, s.crash_count, s.version, s.created_at, s.updated_at, s.origin_event, q.delayed_from, s.name AS series_name,
    s.origin, s.follows_user, s.payload_made
FROM :"schema".queue q
JOIN :"schema".series s ON s.id = q.series_id AND q.event_id BETWEEN s.event_id AND s.event_id;

CREATE VIEW :"schema".processing_events AS
SELECT
    held.event_id AS id, s.user_id, s.event_type, s.occurrence_key, 'PROCESSING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version,
    NULL::timestamptz AS available_at, l.token AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason,
    s.last_error, s.retry_count, s.claim_count + 1 AS claim_count, s.crash_count, s.version + 1 AS version, s.created_at,
    l.claimed_at AS updated_at, s.origin_event, NULL::timestamptz AS delayed_from, s.name AS series_name, s.origin, s.follows_user,
    s.payload_made
FROM :"schema".leases l
CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
CROSS JOIN LATERAL (
    SELECT
        x.user_id, x.event_type, x.occurrence_key, x.target_timestamp_utc, x.target_timestamp_local, x.target_timezone, x.policies,
        x.idempotency_key, x.delivery_payload, x.user_version, x.last_error, x.retry_count, x.claim_count, x.crash_count, x.version,
        x.created_at, x.origin_event, x.name, x.origin, x.follows_user, x.payload_made
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
    h.claim_count, h.crash_count, h.version, h.created_at, h.updated_at, h.origin_event,
    NULL::timestamptz AS delayed_from, h.series_name, h.origin, h.follows_user, h.payload_made
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
COMMENT ON VIEW :"schema".pending_events IS 'The events that are PENDING, with the columns of events';
COMMENT ON VIEW :"schema".processing_events IS 'The events that are PROCESSING, with the columns of events';
COMMENT ON VIEW :"schema".ended_events IS 'The events that have ended, with the columns of events';
