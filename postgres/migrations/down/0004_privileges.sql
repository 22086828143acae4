-- Nothing is lost. What was taken from PUBLIC is not given back: the previous release works without it.
CREATE OR REPLACE FUNCTION :"schema".follow_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    UPDATE :"schema".series SET current_user_version = NEW.version WHERE user_id = NEW.id;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION :"schema".forget_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    PERFORM FROM :"schema".series s WHERE s.user_id = OLD.id ORDER BY s.id FOR UPDATE;
    DELETE FROM :"schema".queue q USING :"schema".series s WHERE s.user_id = OLD.id AND q.event_id = s.event_id;
    WITH gone AS (DELETE FROM :"schema".history h WHERE h.user_id = OLD.id RETURNING h.idempotency_key)
    DELETE FROM :"schema".keys k WHERE k.idempotency_key IN (SELECT gone.idempotency_key FROM gone);
    WITH gone AS (DELETE FROM :"schema".series s WHERE s.user_id = OLD.id RETURNING s.idempotency_key, s.event_id)
    DELETE FROM :"schema".keys k WHERE k.idempotency_key IN (SELECT gone.idempotency_key FROM gone WHERE gone.event_id IS NOT NULL);
    DELETE FROM :"schema".audit a WHERE a.user_id = OLD.id;
    RETURN OLD;
END
$$;

CREATE OR REPLACE FUNCTION :"schema".audit_series() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
    step text;
BEGIN
    IF TG_OP = 'INSERT' OR NEW.event_id IS DISTINCT FROM OLD.event_id THEN
        IF NEW.event_id IS NOT NULL THEN
            step := 'created';
        ELSIF TG_OP = 'UPDATE' AND NEW.used_key = OLD.used_key THEN
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
        INSERT INTO :"schema".audit (kind, event_id, user_id, event_type, version, detail)
        VALUES (step, coalesce(NEW.event_id, OLD.event_id), NEW.user_id, NEW.event_type, NEW.version,
            CASE WHEN step = 'released' THEN NEW.last_error END);
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION :"schema".audit_history() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO :"schema".audit (kind, event_id, user_id, event_type, version, detail)
    VALUES (CASE WHEN NEW.failure_reason ~ '^cancelled($|:)' THEN 'cancelled' ELSE lower(NEW.status) END,
        NEW.id, NEW.user_id, NEW.event_type, NEW.version, NEW.failure_reason);
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION :"schema".audit_lease() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO :"schema".audit (kind, event_id, user_id, event_type, version)
    SELECT 'claimed', s.event_id, s.user_id, s.event_type, s.version + 1
    FROM unnest(NEW.series_ids) AS held (id)
    JOIN :"schema".series s ON s.id = held.id;
    RETURN NULL;
END
$$;
