-- Keys hold the names of series again. A requeued event that repeats a follow-up or a one-off event keeps the key without them.
-- The check of the keys refuses to go down while names or keys of series contain slashes or begin with tildes.
DROP VIEW :"schema".events;
DROP VIEW :"schema".ended_events;
DROP VIEW :"schema".processing_events;
DROP VIEW :"schema".pending_events;

DROP TRIGGER series_guard ON :"schema".series;
DROP TRIGGER history_guard ON :"schema".history;

UPDATE :"schema".history
SET occurrence_key = CASE origin
        WHEN 'follow-up' THEN '~after-' || occurrence_key || '/1'
        WHEN 'scheduled' THEN '~at-' || occurrence_key || '/1' || CASE WHEN follows_user THEN 'f' ELSE '' END || CASE WHEN payload_made THEN 'p' ELSE '' END
        ELSE CASE WHEN series_name = '' THEN '' ELSE series_name || '/' END || occurrence_key
    END,
    origin_event = CASE WHEN origin = 'requeued' THEN origin_event END
WHERE origin IS NOT NULL
    OR series_name <> '';

UPDATE :"schema".unplanned n
SET used_key = s.name || '/' || n.used_key
FROM :"schema".series s
WHERE s.id = n.series_id
    AND s.name <> '';

ALTER TABLE :"schema".series
    DROP CONSTRAINT series_name_key,
    DROP CONSTRAINT series_origin_check;

UPDATE :"schema".series
SET occurrence_key = CASE origin
        WHEN 'follow-up' THEN '~after-' || occurrence_key || '/1'
        WHEN 'scheduled' THEN '~at-' || occurrence_key || '/1' || CASE WHEN follows_user THEN 'f' ELSE '' END || CASE WHEN payload_made THEN 'p' ELSE '' END
        ELSE CASE WHEN name = '' THEN '' ELSE name || '/' END || occurrence_key
    END,
    used_key = CASE WHEN used_key = '' THEN '' ELSE CASE origin
        WHEN 'follow-up' THEN '~after-' || used_key || '/1'
        WHEN 'scheduled' THEN '~at-' || used_key || '/1' || CASE WHEN follows_user THEN 'f' ELSE '' END || CASE WHEN payload_made THEN 'p' ELSE '' END
        ELSE CASE WHEN name = '' THEN '' ELSE name || '/' END || used_key
    END END,
    name = CASE origin
        WHEN 'requeued' THEN '~again-' || origin_event || '/'
        WHEN 'follow-up' THEN '~after-' || occurrence_key || '/'
        WHEN 'scheduled' THEN '~at-' || occurrence_key || '/'
        ELSE name || '/'
    END,
    origin_event = CASE WHEN origin = 'requeued' THEN origin_event END
WHERE origin IS NOT NULL
    OR name <> '';

ALTER TABLE :"schema".history
    DROP COLUMN series_name,
    DROP COLUMN origin,
    DROP COLUMN follows_user,
    DROP COLUMN payload_made;

ALTER TABLE :"schema".series
    DROP COLUMN detached,
    DROP COLUMN origin,
    DROP COLUMN follows_user,
    DROP COLUMN payload_made;

ALTER TABLE :"schema".history RENAME COLUMN origin_event TO requeued_from;

ALTER TABLE :"schema".series RENAME COLUMN origin_event TO requeued_from;

ALTER TABLE :"schema".series
    ADD CONSTRAINT series_name_key UNIQUE (user_id, event_type, name),
    ADD CONSTRAINT series_occurrence_check
        CHECK (name = left(occurrence_key, strpos(occurrence_key, '/')) OR requeued_from IS NOT NULL);

COMMENT ON INDEX :"schema".series_name_key IS 'One series of a user, and all series of a user';

CREATE TRIGGER history_guard AFTER UPDATE ON :"schema".history FOR EACH ROW EXECUTE FUNCTION :"schema".refuse_change();

CREATE TRIGGER series_guard AFTER UPDATE ON :"schema".series FOR EACH ROW
WHEN (
    NEW.id <> OLD.id
    OR NEW.user_id <> OLD.user_id
    OR NEW.event_type <> OLD.event_type
    OR NEW.name <> OLD.name
    OR NEW.used_key < OLD.used_key
    OR NEW.requeued_from IS DISTINCT FROM OLD.requeued_from
    OR (NEW.event_id IS DISTINCT FROM OLD.event_id AND NEW.event_id IS NOT NULL
        AND (NEW.version <> 1 OR NEW.claim_count <> 0 OR NEW.occurrence_key <= NEW.used_key OR NEW.requeued_from IS NOT NULL))
    OR (NEW.event_id = OLD.event_id AND (
        NEW.version NOT BETWEEN OLD.version AND OLD.version + 2
        OR NEW.idempotency_key <> OLD.idempotency_key
        OR ((NEW.version = OLD.version OR OLD.claim_count > 0) AND (
            NEW.target_timestamp_utc <> OLD.target_timestamp_utc
            OR NEW.target_timestamp_local <> OLD.target_timestamp_local
            OR NEW.target_timezone <> OLD.target_timezone
            OR NEW.occurrence_key <> OLD.occurrence_key))))
)
EXECUTE FUNCTION :"schema".refuse_change();

CREATE OR REPLACE FUNCTION :"schema".outbox_history() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'history'::regclass::oid OR TG_OP <> 'INSERT' THEN
        RAISE insufficient_privilege USING MESSAGE = 'outbox_history is for inserts into history alone';
    END IF;
    INSERT INTO outbox (kind, user_id, event_id, event_type, version)
    VALUES ('event_'::text || lower(NEW.status::text), NEW.user_id, NEW.id, NEW.event_type, NEW.version);
    IF NEW.requeued_from IS NULL THEN
        INSERT INTO outbox (kind, user_id, event_id, event_type, version)
        SELECT 'event_created', s.user_id, s.event_id, s.event_type, s.version
        FROM series s
        WHERE s.user_id = NEW.user_id
            AND s.event_type::text = NEW.event_type::text
            AND s.name::text = left(NEW.occurrence_key::text, strpos(NEW.occurrence_key::text, '/'))
            AND s.used_key::text = NEW.occurrence_key::text
            AND s.event_id IS NOT NULL;
    END IF;
    RETURN NULL;
END
$$;

CREATE VIEW :"schema".pending_events AS
SELECT
    q.event_id AS id, s.user_id, q.event_type, s.occurrence_key, 'PENDING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version, q.available_at,
    NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason, s.last_error, s.retry_count,
    s.claim_count, s.crash_count, s.version, s.created_at, s.updated_at, s.requeued_from, q.delayed_from
FROM :"schema".queue q
JOIN :"schema".series s ON s.id = q.series_id AND q.event_id BETWEEN s.event_id AND s.event_id;

-- OFFSET 0 has each series looked up by its id: nobody knows how many a lease lists, and statistics would have the table read.
CREATE VIEW :"schema".processing_events AS
SELECT
    held.event_id AS id, s.user_id, s.event_type, s.occurrence_key, 'PROCESSING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version,
    NULL::timestamptz AS available_at, l.token AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason,
    s.last_error, s.retry_count, s.claim_count + 1 AS claim_count, s.crash_count, s.version + 1 AS version, s.created_at,
    l.claimed_at AS updated_at, s.requeued_from, NULL::timestamptz AS delayed_from
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
    h.claim_count, h.crash_count, h.version, h.created_at, h.updated_at, h.requeued_from,
    NULL::timestamptz AS delayed_from
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
