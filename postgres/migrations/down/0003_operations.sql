-- Who delivers after that knows of no pause, and the trail is nowhere else.
-- Loses pauses
-- Loses audit
DROP TRIGGER IF EXISTS series_audit ON :"schema".series;
DROP TRIGGER IF EXISTS history_audit ON :"schema".history;
DROP TRIGGER IF EXISTS leases_audit ON :"schema".leases;

CREATE OR REPLACE FUNCTION :"schema".forget_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    PERFORM FROM :"schema".series s WHERE s.user_id = OLD.id ORDER BY s.id FOR UPDATE;
    DELETE FROM :"schema".queue q USING :"schema".series s WHERE s.user_id = OLD.id AND q.event_id = s.event_id;
    WITH gone AS (DELETE FROM :"schema".history h WHERE h.user_id = OLD.id RETURNING h.idempotency_key)
    DELETE FROM :"schema".keys k WHERE k.idempotency_key IN (SELECT gone.idempotency_key FROM gone);
    WITH gone AS (DELETE FROM :"schema".series s WHERE s.user_id = OLD.id RETURNING s.idempotency_key, s.event_id)
    DELETE FROM :"schema".keys k WHERE k.idempotency_key IN (SELECT gone.idempotency_key FROM gone WHERE gone.event_id IS NOT NULL);
    RETURN OLD;
END
$$;

DROP FUNCTION :"schema".audit_series();
DROP FUNCTION :"schema".audit_history();
DROP FUNCTION :"schema".audit_lease();
DROP TABLE :"schema".audit;
DROP TABLE :"schema".pauses;
