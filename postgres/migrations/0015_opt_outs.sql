-- Users can refuse events, and a requeued event can be delivered whatever its user refuses.
--
-- The migration locks all tables of events, users and audit (ACCESS EXCLUSIVE) until it commits. It reads users once, to check the
-- new column. Everything waits for that time.
--
-- Upgrade in this order:
--   1. Migrate. Programs of the previous release may go on. They neither read nor write the new columns, so their edits leave
--      opt-outs unchanged. As long as nobody has opted out, nothing differs.
--   2. Run docs/roles.sql again, if its roles are used. Until then this release cannot create or edit users as almanac_api, nor
--      store events.
--   3. Replace the programs one by one, those that deliver first, and dispatchers of JetStream before its workers. A program of the
--      release before plans and delivers what users refuse. What it has planned for such a user, a program of this release ends as
--      CANCELLED when it comes due.
--   4. Let users opt out.

-- First, and with the views and tables below it in the order of a query. A migration that locked series before the views would
-- deadlock with each query of events, and give up each time.
LOCK TABLE :"schema".events IN ACCESS EXCLUSIVE MODE;

ALTER TABLE :"schema".users
    ADD COLUMN opt_outs jsonb,
    ADD CONSTRAINT users_opt_outs_check CHECK (jsonb_typeof(opt_outs) = 'array');

ALTER TABLE :"schema".series ADD COLUMN forced boolean;

ALTER TABLE :"schema".history ADD COLUMN forced boolean;

ALTER TABLE :"schema".audit
    ALTER COLUMN event_id DROP NOT NULL,
    ALTER COLUMN event_type DROP NOT NULL;

DROP TRIGGER series_guard ON :"schema".series;

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
        OR NEW.forced IS DISTINCT FROM OLD.forced
        OR ((NEW.version = OLD.version OR OLD.claim_count > 0) AND (
            NEW.target_timestamp_utc <> OLD.target_timestamp_utc
            OR NEW.target_timestamp_local <> OLD.target_timestamp_local
            OR NEW.target_timezone <> OLD.target_timezone
            OR NEW.occurrence_key <> OLD.occurrence_key))))
)
EXECUTE FUNCTION :"schema".refuse_change();

CREATE OR REPLACE VIEW :"schema".pending_events AS
SELECT
    q.event_id AS id, s.user_id, q.event_type, s.occurrence_key, 'PENDING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version, q.available_at,
    NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason, s.last_error, s.retry_count,
    s.claim_count, s.crash_count, s.version, s.created_at, s.updated_at, s.origin_event, q.delayed_from, s.name AS series_name,
    s.origin, s.follows_user, s.payload_made, s.forced
FROM :"schema".queue q
JOIN :"schema".series s ON s.id = q.series_id AND q.event_id BETWEEN s.event_id AND s.event_id;

CREATE OR REPLACE VIEW :"schema".processing_events AS
SELECT
    held.event_id AS id, s.user_id, s.event_type, s.occurrence_key, 'PROCESSING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version,
    NULL::timestamptz AS available_at, l.token AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason,
    s.last_error, s.retry_count, s.claim_count + 1 AS claim_count, s.crash_count, s.version + 1 AS version, s.created_at,
    l.claimed_at AS updated_at, s.origin_event, NULL::timestamptz AS delayed_from, s.name AS series_name, s.origin, s.follows_user,
    s.payload_made, s.forced
FROM :"schema".leases l
CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
CROSS JOIN LATERAL (
    SELECT
        x.user_id, x.event_type, x.occurrence_key, x.target_timestamp_utc, x.target_timestamp_local, x.target_timezone, x.policies,
        x.idempotency_key, x.delivery_payload, x.user_version, x.last_error, x.retry_count, x.claim_count, x.crash_count, x.version,
        x.created_at, x.origin_event, x.name, x.origin, x.follows_user, x.payload_made, x.forced
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
    NULL::timestamptz AS delayed_from, h.series_name, h.origin, h.follows_user, h.payload_made, h.forced
FROM :"schema".history h;

CREATE OR REPLACE VIEW :"schema".events AS
SELECT * FROM :"schema".pending_events
UNION ALL
SELECT * FROM :"schema".processing_events
UNION ALL
SELECT * FROM :"schema".ended_events;

CREATE FUNCTION :"schema".audit_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'users'::regclass::oid OR TG_OP NOT IN ('INSERT', 'UPDATE') THEN
        RAISE insufficient_privilege USING MESSAGE = 'audit_user is for inserts and updates of users alone';
    END IF;
    INSERT INTO audit (kind, user_id, version, detail)
    VALUES ('opt_outs_changed', NEW.id, NEW.version, left(coalesce(NEW.opt_outs::text, '[]'::text), 1100));
    RETURN NULL;
END
$$;

REVOKE ALL ON FUNCTION :"schema".audit_user() FROM PUBLIC;

-- A trail that is kept has opt-outs from now on.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = ':"schema".series'::regclass AND tgname = 'series_audit') THEN
        CREATE TRIGGER users_audit AFTER INSERT ON :"schema".users
        FOR EACH ROW
        WHEN (NEW.opt_outs IS NOT NULL)
        EXECUTE FUNCTION :"schema".audit_user();
        CREATE TRIGGER users_audit_changed AFTER UPDATE ON :"schema".users
        FOR EACH ROW
        WHEN (NEW.opt_outs IS DISTINCT FROM OLD.opt_outs)
        EXECUTE FUNCTION :"schema".audit_user();
    END IF;
END
$$;
