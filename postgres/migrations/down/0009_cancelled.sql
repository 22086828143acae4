-- What was cancelled is FAILED again, and what was requeued has a key of its own again. Series that wait for a program that has the
-- handler would stand still until their user is edited.
-- Loses unplanned
DROP TRIGGER history_cancelled ON :"schema".history;
DROP FUNCTION :"schema".store_cancelled();
DROP TRIGGER series_guard ON :"schema".series;
DROP TRIGGER history_guard ON :"schema".history;

ALTER TABLE :"schema".history
    DROP CONSTRAINT history_status_check,
    DROP CONSTRAINT history_failure_check;

ALTER TABLE :"schema".series DROP CONSTRAINT series_occurrence_check;

-- The previous release counts a claim of its own for a cancellation, with a token and a version.
UPDATE :"schema".history
SET status = 'FAILED',
    claim_count = claim_count + CASE WHEN lease_token IS NULL THEN 1 ELSE 0 END,
    version = version + CASE WHEN lease_token IS NULL THEN 1 ELSE 0 END,
    failure_reason = 'cancelled' || CASE WHEN failure_reason = '' THEN '' ELSE ': ' || failure_reason END,
    lease_token = coalesce(lease_token, gen_random_uuid())
WHERE failure_reason IS NOT NULL
    AND status = 'CANCELLED';

UPDATE :"schema".history h
SET occurrence_key = '~again-' || h.requeued_from || '/1'
WHERE h.requeued_from IS NOT NULL;

UPDATE :"schema".series s
SET occurrence_key = s.name || '1',
    used_key = CASE WHEN s.used_key = '' THEN '' ELSE s.name || '1' END
WHERE s.requeued_from IS NOT NULL;

DROP VIEW :"schema".events;
DROP VIEW :"schema".ended_events;
DROP VIEW :"schema".processing_events;
DROP VIEW :"schema".pending_events;

ALTER TABLE :"schema".history
    DROP COLUMN requeued_from,
    ALTER COLUMN lease_token SET NOT NULL,
    ADD CONSTRAINT history_status_check CHECK (status IN ('COMPLETED', 'FAILED')),
    ADD CONSTRAINT history_failure_check CHECK ((status = 'FAILED') = (failure_reason IS NOT NULL));

ALTER TABLE :"schema".series
    DROP COLUMN requeued_from,
    ADD CONSTRAINT series_occurrence_check CHECK (name = left(occurrence_key, strpos(occurrence_key, '/')));

CREATE VIEW :"schema".pending_events AS
SELECT
    q.event_id AS id, s.user_id, q.event_type, s.occurrence_key, 'PENDING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version, q.available_at,
    NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason, s.last_error, s.retry_count,
    s.claim_count, s.crash_count, s.version, s.created_at, s.updated_at
FROM :"schema".queue q
JOIN :"schema".series s ON s.id = q.series_id AND q.event_id BETWEEN s.event_id AND s.event_id;

CREATE VIEW :"schema".processing_events AS
SELECT
    held.event_id AS id, s.user_id, s.event_type, s.occurrence_key, 'PROCESSING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version,
    NULL::timestamptz AS available_at, l.token AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason,
    s.last_error, s.retry_count, s.claim_count + 1 AS claim_count, s.crash_count, s.version + 1 AS version, s.created_at,
    l.claimed_at AS updated_at
FROM :"schema".leases l
CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
CROSS JOIN LATERAL (
    SELECT
        x.user_id, x.event_type, x.occurrence_key, x.target_timestamp_utc, x.target_timestamp_local, x.target_timezone, x.policies,
        x.idempotency_key, x.delivery_payload, x.user_version, x.last_error, x.retry_count, x.claim_count, x.crash_count, x.version,
        x.created_at
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
    h.claim_count, h.crash_count, h.version, h.created_at, h.updated_at
FROM :"schema".history h;

CREATE VIEW :"schema".events AS
SELECT * FROM :"schema".pending_events
UNION ALL
SELECT * FROM :"schema".processing_events
UNION ALL
SELECT * FROM :"schema".ended_events;

CREATE TRIGGER history_guard AFTER UPDATE ON :"schema".history FOR EACH ROW EXECUTE FUNCTION :"schema".refuse_change();

CREATE TRIGGER series_guard AFTER UPDATE ON :"schema".series FOR EACH ROW
WHEN (
    NEW.id <> OLD.id
    OR NEW.user_id <> OLD.user_id
    OR NEW.event_type <> OLD.event_type
    OR NEW.name <> OLD.name
    OR NEW.used_key < OLD.used_key
    OR (NEW.event_id IS DISTINCT FROM OLD.event_id AND NEW.event_id IS NOT NULL
        AND (NEW.version <> 1 OR NEW.claim_count <> 0 OR NEW.occurrence_key <= NEW.used_key))
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

CREATE OR REPLACE FUNCTION :"schema".audit_history() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'history'::regclass::oid OR TG_OP <> 'INSERT' THEN
        RAISE insufficient_privilege USING MESSAGE = 'audit_history is for inserts into history alone';
    END IF;
    INSERT INTO audit (kind, event_id, user_id, event_type, version, detail)
    VALUES (CASE WHEN NEW.failure_reason::text ~ '^cancelled($|:)' THEN 'cancelled' ELSE lower(NEW.status::text) END,
        NEW.id, NEW.user_id, NEW.event_type, NEW.version, NEW.failure_reason);
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION :"schema".forget_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'users'::regclass::oid OR TG_OP <> 'DELETE' THEN
        RAISE insufficient_privilege USING MESSAGE = 'forget_user is for deletions of users alone';
    END IF;
    PERFORM FROM series s WHERE s.user_id = OLD.id ORDER BY s.id FOR UPDATE;
    DELETE FROM queue q USING series s WHERE s.user_id = OLD.id AND q.event_id = s.event_id;
    WITH gone AS (DELETE FROM history h WHERE h.user_id = OLD.id RETURNING h.idempotency_key::text AS name)
    DELETE FROM keys k WHERE k.idempotency_key::text IN (SELECT gone.name FROM gone);
    WITH gone AS (DELETE FROM series s WHERE s.user_id = OLD.id RETURNING s.idempotency_key::text AS name, s.event_id)
    DELETE FROM keys k WHERE k.idempotency_key::text IN (SELECT gone.name FROM gone WHERE gone.event_id IS NOT NULL);
    DELETE FROM audit a WHERE a.user_id = OLD.id;
    RETURN OLD;
END
$$;

REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON :"schema".pending_events, :"schema".processing_events,
    :"schema".ended_events, :"schema".events FROM PUBLIC;

COMMENT ON VIEW :"schema".events IS 'What people are owed and what became of it, one row per event';

DROP TABLE :"schema".unplanned;
