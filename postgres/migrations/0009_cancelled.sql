-- CANCELLED becomes a status of its own, a requeued event keeps the occurrence key of the event that it repeats, and a series can
-- wait for a program that has its handler.
--
-- The migration locks series and history (ACCESS EXCLUSIVE) until it commits, and reads neither of them whole. The new checks hold
-- for every row that is there, since they allow more than the old ones; NOT VALID spares the proof. It rewrites the few rows that
-- were cancelled, which the index of failures finds, and those that were requeued.
--
-- A program of the previous release may run beside this release:
--   - It still stores what it cancels as FAILED with a reason that begins with "cancelled". The trigger history_cancelled stores
--     such a row as CANCELLED, and tells it from a delivery that failed for a reason of that wording.
--   - It shows a row that is CANCELLED under that status, and refuses to requeue it.
--   - It would plan a successor of a requeued event, whose key it does not know from that of a series. The guard refuses the
--     successor, so that it stores the outcome alone.
--   - What it requeues has a key that begins with "~again-", as before, and no requeued_from.
--   - What it plans in a series that waits makes the row in unplanned obsolete, since a row counts only as long as its key is the
--     last one that was used.

ALTER TABLE :"schema".history
    ADD COLUMN requeued_from uuid,
    ALTER COLUMN lease_token DROP NOT NULL,
    DROP CONSTRAINT history_status_check,
    DROP CONSTRAINT history_failure_check,
    ADD CONSTRAINT history_status_check CHECK (status IN ('COMPLETED', 'FAILED', 'CANCELLED')) NOT VALID,
    ADD CONSTRAINT history_failure_check CHECK ((status = 'COMPLETED') = (failure_reason IS NULL)) NOT VALID;

ALTER TABLE :"schema".series
    ADD COLUMN requeued_from uuid,
    DROP CONSTRAINT series_occurrence_check,
    ADD CONSTRAINT series_occurrence_check
        CHECK (name = left(occurrence_key, strpos(occurrence_key, '/')) OR requeued_from IS NOT NULL) NOT VALID;

DROP TRIGGER series_guard ON :"schema".series;

DROP TRIGGER history_guard ON :"schema".history;

-- A cancellation counted a claim and no attempt. A failure counted both. So an event that was cancelled after an attempt has the error of
-- that attempt, and a claim more than attempts and crashes. A failure looks the same only when its reason begins with "cancelled: " and
-- a claim was given back besides, at a shutdown or for a snooze, or the event was requeued.
UPDATE :"schema".history
SET status = 'CANCELLED',
    failure_reason = regexp_replace(failure_reason, '^cancelled(: )?', '')
WHERE failure_reason IS NOT NULL
    AND failure_reason ~ '^cancelled($|: )'
    AND (retry_count = 0 OR (last_error IS NOT NULL AND claim_count > retry_count + crash_count));

-- In order of creation, so that what was requeued twice takes its key from what took it from the first. What repeats an event that
-- was pruned keeps the key that it has.
DO $$
DECLARE
    ended uuid;
    key   text;
    again text;
BEGIN
    FOR ended IN
        SELECT h.id
        FROM :"schema".history h
        JOIN :"schema".series s ON s.user_id = h.user_id AND s.event_type = h.event_type AND s.name = '~again-' || h.id || '/'
        WHERE h.failure_reason IS NOT NULL
        ORDER BY h.id
    LOOP
        again := '~again-' || ended || '/';
        SELECT h.occurrence_key INTO key FROM :"schema".history h WHERE h.id = ended;
        UPDATE :"schema".series s
        SET requeued_from = ended,
            occurrence_key = key,
            used_key = CASE WHEN s.used_key = '' THEN '' ELSE key END
        FROM :"schema".history h
        WHERE h.id = ended AND s.user_id = h.user_id AND s.event_type = h.event_type AND s.name = again;
        UPDATE :"schema".history x
        SET requeued_from = ended,
            occurrence_key = key
        FROM :"schema".history h
        WHERE h.id = ended AND x.user_id = h.user_id AND x.event_type = h.event_type AND x.occurrence_key = again || '1';
    END LOOP;
END
$$;

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

CREATE TABLE :"schema".unplanned (
    series_id  bigint       NOT NULL,
    user_id    uuid         NOT NULL,
    event_type varchar(50)  NOT NULL,
    used_key   varchar(100) COLLATE "C" NOT NULL,
    CONSTRAINT unplanned_pkey PRIMARY KEY (series_id)
);

CREATE INDEX unplanned_user ON :"schema".unplanned (event_type, user_id);

CREATE OR REPLACE VIEW :"schema".pending_events AS
SELECT
    q.event_id AS id, s.user_id, q.event_type, s.occurrence_key, 'PENDING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version, q.available_at,
    NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason, s.last_error, s.retry_count,
    s.claim_count, s.crash_count, s.version, s.created_at, s.updated_at, s.requeued_from
FROM :"schema".queue q
JOIN :"schema".series s ON s.id = q.series_id AND q.event_id BETWEEN s.event_id AND s.event_id;

CREATE OR REPLACE VIEW :"schema".processing_events AS
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

CREATE OR REPLACE VIEW :"schema".ended_events AS
SELECT
    h.id, h.user_id, h.event_type, h.occurrence_key, h.status, h.target_timestamp_utc,
    h.target_timestamp_local, h.target_timezone, h.policies, h.idempotency_key, h.delivery_payload, h.user_version,
    NULL::timestamptz AS available_at, h.lease_token, h.executed_at, h.failure_reason, h.last_error, h.retry_count,
    h.claim_count, h.crash_count, h.version, h.created_at, h.updated_at, h.requeued_from
FROM :"schema".history h;

CREATE OR REPLACE VIEW :"schema".events AS
SELECT * FROM :"schema".pending_events
UNION ALL
SELECT * FROM :"schema".processing_events
UNION ALL
SELECT * FROM :"schema".ended_events;

CREATE FUNCTION :"schema".store_cancelled() RETURNS trigger LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF NEW.retry_count = 0 OR EXISTS (
        SELECT FROM series s
        WHERE s.user_id = NEW.user_id
            AND s.event_type::text = NEW.event_type::text
            AND s.event_id IS NULL
            AND s.occurrence_key::text = NEW.occurrence_key::text
            AND s.version = NEW.version - 2
            AND s.retry_count = NEW.retry_count
    ) THEN
        NEW.status := 'CANCELLED';
        NEW.failure_reason := regexp_replace(NEW.failure_reason::text, '^cancelled(: )?', '');
    END IF;
    RETURN NEW;
END
$$;

REVOKE ALL ON FUNCTION :"schema".store_cancelled() FROM PUBLIC;

REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON :"schema".unplanned FROM PUBLIC;

CREATE TRIGGER history_cancelled BEFORE INSERT ON :"schema".history FOR EACH ROW
WHEN (NEW.status = 'FAILED' AND NEW.failure_reason ~ '^cancelled($|: )')
EXECUTE FUNCTION :"schema".store_cancelled();

CREATE OR REPLACE FUNCTION :"schema".audit_history() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'history'::regclass::oid OR TG_OP <> 'INSERT' THEN
        RAISE insufficient_privilege USING MESSAGE = 'audit_history is for inserts into history alone';
    END IF;
    INSERT INTO audit (kind, event_id, user_id, event_type, version, detail)
    VALUES (lower(NEW.status::text), NEW.id, NEW.user_id, NEW.event_type, NEW.version, nullif(NEW.failure_reason::text, ''));
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION :"schema".forget_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'users'::regclass::oid OR TG_OP <> 'DELETE' THEN
        RAISE insufficient_privilege USING MESSAGE = 'forget_user is for deletions of users alone';
    END IF;
    PERFORM FROM series s WHERE s.user_id = OLD.id ORDER BY s.id FOR UPDATE;
    DELETE FROM unplanned n USING series s WHERE s.user_id = OLD.id AND n.series_id = s.id;
    DELETE FROM queue q USING series s WHERE s.user_id = OLD.id AND q.event_id = s.event_id;
    WITH gone AS (DELETE FROM history h WHERE h.user_id = OLD.id RETURNING h.idempotency_key::text AS name)
    DELETE FROM keys k WHERE k.idempotency_key::text IN (SELECT gone.name FROM gone);
    WITH gone AS (DELETE FROM series s WHERE s.user_id = OLD.id RETURNING s.idempotency_key::text AS name, s.event_id)
    DELETE FROM keys k WHERE k.idempotency_key::text IN (SELECT gone.name FROM gone WHERE gone.event_id IS NOT NULL);
    DELETE FROM audit a WHERE a.user_id = OLD.id;
    RETURN OLD;
END
$$;

COMMENT ON TABLE :"schema".unplanned IS 'Series whose next event is left to a program that has the handler';
