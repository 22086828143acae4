-- Switches the outbox off.
-- Loses outbox
-- Loses outbox_consumers
DROP TRIGGER IF EXISTS users_outbox ON :"schema".users;
DROP TRIGGER IF EXISTS users_outbox_changed ON :"schema".users;
DROP TRIGGER IF EXISTS series_outbox ON :"schema".series;
DROP TRIGGER IF EXISTS series_outbox_changed ON :"schema".series;
DROP TRIGGER IF EXISTS history_outbox ON :"schema".history;

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

DROP FUNCTION :"schema".outbox_user();
DROP FUNCTION :"schema".outbox_series();
DROP FUNCTION :"schema".outbox_history();
DROP TABLE :"schema".outbox_consumers;
DROP TABLE :"schema".outbox;
