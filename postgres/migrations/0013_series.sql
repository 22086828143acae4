-- The name of a series, the occurrence key and the origin of an event become columns of their own. Before, the key held them all:
-- "name/key", "~after-key/1" for a follow-up and "~at-key/1fp" for a one-off event; a requeued event was in a series "~again-ID/".
--
-- Stop all programs of the previous release first. They would take a key for another one. The migration locks series and history (ACCESS
-- EXCLUSIVE) until it commits, rewrites the rows whose keys were composed, and builds the unique index of series anew.
ALTER TABLE :"schema".history RENAME COLUMN requeued_from TO origin_event;

ALTER TABLE :"schema".series RENAME COLUMN requeued_from TO origin_event;

ALTER TABLE :"schema".history
    ADD COLUMN series_name varchar(100) COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN origin varchar(20),
    ADD COLUMN follows_user boolean,
    ADD COLUMN payload_made boolean;

ALTER TABLE :"schema".series
    ADD COLUMN detached varchar(100) COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN origin varchar(20),
    ADD COLUMN follows_user boolean,
    ADD COLUMN payload_made boolean,
    DROP CONSTRAINT series_occurrence_check,
    DROP CONSTRAINT series_name_key;

DROP TRIGGER series_guard ON :"schema".series;

DROP TRIGGER history_guard ON :"schema".history;

-- What was requeued from an event that was pruned before migration 9 has no key but its own.
UPDATE :"schema".history
SET origin_event = coalesce(origin_event, CASE WHEN occurrence_key LIKE '~again-%' THEN substr(occurrence_key, 8, 36)::uuid END),
    origin = CASE
        WHEN origin_event IS NOT NULL OR occurrence_key LIKE '~again-%' THEN 'requeued'
        WHEN occurrence_key LIKE '~after-%' THEN 'follow-up'
        WHEN occurrence_key LIKE '~at-%' THEN 'scheduled'
    END,
    follows_user = CASE WHEN origin_event IS NULL AND occurrence_key LIKE '~at-%' THEN split_part(occurrence_key, '/', 2) LIKE '%f%' END,
    payload_made = CASE WHEN origin_event IS NULL AND occurrence_key LIKE '~at-%' THEN split_part(occurrence_key, '/', 2) LIKE '%p%' END,
    series_name = CASE WHEN occurrence_key LIKE '~%' THEN '' ELSE left(occurrence_key, greatest(strpos(occurrence_key, '/') - 1, 0)) END,
    occurrence_key = CASE
            WHEN occurrence_key LIKE '~after-%' THEN substr(occurrence_key, 8, strpos(occurrence_key, '/') - 8)
            WHEN occurrence_key LIKE '~at-%' THEN substr(occurrence_key, 5, strpos(occurrence_key, '/') - 5)
            ELSE substr(occurrence_key, strpos(occurrence_key, '/') + 1)
        END
WHERE origin_event IS NOT NULL
    OR strpos(occurrence_key, '/') > 0;

UPDATE :"schema".unplanned
SET used_key = CASE
            WHEN used_key LIKE '~after-%' THEN substr(used_key, 8, strpos(used_key, '/') - 8)
            WHEN used_key LIKE '~at-%' THEN substr(used_key, 5, strpos(used_key, '/') - 5)
            ELSE substr(used_key, strpos(used_key, '/') + 1)
        END
WHERE strpos(used_key, '/') > 0;

UPDATE :"schema".series
SET origin_event = CASE WHEN name LIKE '~again-%' THEN substr(name, 8, 36)::uuid END,
    detached = CASE
        WHEN name LIKE '~again-%' THEN 'requeued:' || substr(name, 8, 36)
        WHEN name LIKE '~after-%' THEN 'follow-up:' || substr(name, 8, length(name) - 8)
        WHEN name LIKE '~at-%' THEN 'scheduled:' || substr(name, 5, length(name) - 5)
        ELSE ''
    END,
    origin = CASE
        WHEN name LIKE '~again-%' THEN 'requeued'
        WHEN name LIKE '~after-%' THEN 'follow-up'
        WHEN name LIKE '~at-%' THEN 'scheduled'
    END,
    follows_user = CASE WHEN name LIKE '~at-%' THEN split_part(occurrence_key, '/', 2) LIKE '%f%' END,
    payload_made = CASE WHEN name LIKE '~at-%' THEN split_part(occurrence_key, '/', 2) LIKE '%p%' END,
    name = CASE WHEN occurrence_key LIKE '~%' THEN '' ELSE left(occurrence_key, greatest(strpos(occurrence_key, '/') - 1, 0)) END,
    occurrence_key = CASE
            WHEN occurrence_key LIKE '~after-%' THEN substr(occurrence_key, 8, strpos(occurrence_key, '/') - 8)
            WHEN occurrence_key LIKE '~at-%' THEN substr(occurrence_key, 5, strpos(occurrence_key, '/') - 5)
            ELSE substr(occurrence_key, strpos(occurrence_key, '/') + 1)
        END,
    used_key = CASE
            WHEN used_key LIKE '~after-%' THEN substr(used_key, 8, strpos(used_key, '/') - 8)
            WHEN used_key LIKE '~at-%' THEN substr(used_key, 5, strpos(used_key, '/') - 5)
            ELSE substr(used_key, strpos(used_key, '/') + 1)
        END
WHERE name <> '';

ALTER TABLE :"schema".series
    ADD CONSTRAINT series_name_key UNIQUE (user_id, event_type, name, detached),
    ADD CONSTRAINT series_origin_check CHECK ((origin IS NULL) = (detached = ''));

COMMENT ON INDEX :"schema".series_name_key IS 'One series of a user, and all series of a user';

CREATE TRIGGER history_guard AFTER UPDATE ON :"schema".history FOR EACH ROW EXECUTE FUNCTION :"schema".refuse_change();

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

CREATE OR REPLACE FUNCTION :"schema".outbox_history() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'history'::regclass::oid OR TG_OP <> 'INSERT' THEN
        RAISE insufficient_privilege USING MESSAGE = 'outbox_history is for inserts into history alone';
    END IF;
    INSERT INTO outbox (kind, user_id, event_id, event_type, version)
    VALUES ('event_'::text || lower(NEW.status::text), NEW.user_id, NEW.id, NEW.event_type, NEW.version);
    IF NEW.origin IS NULL THEN
        INSERT INTO outbox (kind, user_id, event_id, event_type, version)
        SELECT 'event_created', s.user_id, s.event_id, s.event_type, s.version
        FROM series s
        WHERE s.user_id = NEW.user_id
            AND s.event_type::text = NEW.event_type::text
            AND s.name::text = NEW.series_name::text
            AND s.detached::text = ''::text
            AND s.used_key::text = NEW.occurrence_key::text
            AND s.event_id IS NOT NULL;
    END IF;
    RETURN NULL;
END
$$;

ALTER VIEW :"schema".pending_events RENAME COLUMN requeued_from TO origin_event;
ALTER VIEW :"schema".processing_events RENAME COLUMN requeued_from TO origin_event;
ALTER VIEW :"schema".ended_events RENAME COLUMN requeued_from TO origin_event;
ALTER VIEW :"schema".events RENAME COLUMN requeued_from TO origin_event;

CREATE OR REPLACE VIEW :"schema".pending_events AS
SELECT
    q.event_id AS id, s.user_id, q.event_type, s.occurrence_key, 'PENDING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version, q.available_at,
    NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason, s.last_error, s.retry_count,
    s.claim_count, s.crash_count, s.version, s.created_at, s.updated_at, s.origin_event, q.delayed_from, s.name AS series_name,
    s.origin, s.follows_user, s.payload_made
FROM :"schema".queue q
JOIN :"schema".series s ON s.id = q.series_id AND q.event_id BETWEEN s.event_id AND s.event_id;

-- OFFSET 0 has each series looked up by its id: nobody knows how many a lease lists, and statistics would have the table read.
CREATE OR REPLACE VIEW :"schema".processing_events AS
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

CREATE OR REPLACE VIEW :"schema".ended_events AS
SELECT
    h.id, h.user_id, h.event_type, h.occurrence_key, h.status, h.target_timestamp_utc,
    h.target_timestamp_local, h.target_timezone, h.policies, h.idempotency_key, h.delivery_payload, h.user_version,
    NULL::timestamptz AS available_at, h.lease_token, h.executed_at, h.failure_reason, h.last_error, h.retry_count,
    h.claim_count, h.crash_count, h.version, h.created_at, h.updated_at, h.origin_event,
    NULL::timestamptz AS delayed_from, h.series_name, h.origin, h.follows_user, h.payload_made
FROM :"schema".history h;

CREATE OR REPLACE VIEW :"schema".events AS
SELECT * FROM :"schema".pending_events
UNION ALL
SELECT * FROM :"schema".processing_events
UNION ALL
SELECT * FROM :"schema".ended_events;
