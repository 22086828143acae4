CREATE OR REPLACE FUNCTION :"schema".follow_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'users'::regclass::oid OR TG_OP <> 'UPDATE' THEN
        RAISE insufficient_privilege USING MESSAGE = 'follow_user is for updates of users alone';
    END IF;
    UPDATE series SET current_user_version = NEW.version WHERE user_id = NEW.id;
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

CREATE OR REPLACE FUNCTION :"schema".audit_series() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
DECLARE
    step text;
BEGIN
    IF TG_RELID <> 'series'::regclass::oid OR TG_OP NOT IN ('INSERT', 'UPDATE') THEN
        RAISE insufficient_privilege USING MESSAGE = 'audit_series is for inserts and updates of series alone';
    END IF;
    IF TG_OP = 'INSERT' OR NEW.event_id IS DISTINCT FROM OLD.event_id THEN
        IF NEW.event_id IS NOT NULL THEN
            step := 'created';
        ELSIF TG_OP = 'UPDATE' AND NEW.used_key::text = OLD.used_key::text THEN
            step := 'removed';
        END IF;
    ELSIF NEW.claim_count > OLD.claim_count THEN
        step := 'released';
    ELSIF NEW.version > OLD.version + 1 THEN
        step := 'returned';
    ELSIF NEW.version > OLD.version THEN
        step := 'rescheduled';
    END IF;
    IF step IS NOT NULL THEN
        INSERT INTO audit (kind, event_id, user_id, event_type, version, detail)
        VALUES (step, coalesce(NEW.event_id, OLD.event_id), NEW.user_id, NEW.event_type, NEW.version,
            CASE WHEN step = 'released' THEN NEW.last_error END);
    END IF;
    RETURN NULL;
END
$$;

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

CREATE OR REPLACE FUNCTION :"schema".audit_lease() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'leases'::regclass::oid OR TG_OP <> 'INSERT' THEN
        RAISE insufficient_privilege USING MESSAGE = 'audit_lease is for inserts into leases alone';
    END IF;
    INSERT INTO audit (kind, event_id, user_id, event_type, version)
    SELECT 'claimed', s.event_id, s.user_id, s.event_type, s.version + 1
    FROM pg_catalog.unnest(NEW.series_ids) AS held (id)
    JOIN series s ON s.id = held.id;
    RETURN NULL;
END
$$;

-- PUBLIC neither executes nor writes anything, whatever default privileges the database has.
REVOKE ALL ON FUNCTION :"schema".refuse_change(), :"schema".follow_user(), :"schema".forget_user(), :"schema".audit_series(),
    :"schema".audit_history(), :"schema".audit_lease() FROM PUBLIC;
REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON :"schema".migrations, :"schema".users, :"schema".series, :"schema".queue,
    :"schema".history, :"schema".keys, :"schema".leases, :"schema".zone_rules, :"schema".pauses, :"schema".audit, :"schema".pending_events,
    :"schema".processing_events, :"schema".ended_events, :"schema".events FROM PUBLIC;
REVOKE USAGE, UPDATE ON SEQUENCE :"schema".series_id_seq, :"schema".audit_id_seq FROM PUBLIC;
