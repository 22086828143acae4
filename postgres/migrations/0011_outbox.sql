-- The outbox of domain events. It makes tables and functions and no trigger, so that nothing is written before it is switched on.
-- forget_user is replaced. No table that is there is locked for longer than that takes.
CREATE TABLE :"schema".outbox (
    sequence       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    id             uuid        NOT NULL DEFAULT gen_random_uuid(),
    transaction_id xid8        NOT NULL DEFAULT pg_current_xact_id(),
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind           varchar(30) NOT NULL,
    user_id        uuid        NOT NULL,
    event_id       uuid,
    event_type     varchar(50),
    version        integer     NOT NULL,
    CONSTRAINT outbox_pkey PRIMARY KEY (sequence)
)
WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX outbox_transaction ON :"schema".outbox (transaction_id, sequence);

CREATE INDEX outbox_user ON :"schema".outbox (user_id);

CREATE TABLE :"schema".outbox_consumers (
    name     varchar(100) COLLATE "C" NOT NULL,
    seen     pg_snapshot  NOT NULL,
    low      bigint       NOT NULL,
    reading  pg_snapshot  NOT NULL,
    next_low bigint       NOT NULL,
    last     bigint       NOT NULL,
    moved_at timestamptz  NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT outbox_consumers_pkey PRIMARY KEY (name)
)
WITH (fillfactor = 50);

CREATE FUNCTION :"schema".outbox_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'users'::regclass::oid OR TG_OP NOT IN ('INSERT', 'UPDATE', 'DELETE') THEN
        RAISE insufficient_privilege USING MESSAGE = 'outbox_user is for inserts, updates and deletions of users alone';
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO outbox (kind, user_id, version) VALUES ('user_created', NEW.id, NEW.version);
        RETURN NULL;
    END IF;
    IF TG_OP = 'DELETE' THEN
        -- Of a user who was hidden before, it was said then.
        IF OLD.deleted_at IS NULL THEN
            INSERT INTO outbox (kind, user_id, version) VALUES ('user_deleted', OLD.id, OLD.version);
        END IF;
        RETURN NULL;
    END IF;
    IF NEW.timezone::text <> OLD.timezone::text THEN
        INSERT INTO outbox (kind, user_id, version) VALUES ('user_timezone_changed', NEW.id, NEW.version);
    END IF;
    IF NEW.date_of_birth IS DISTINCT FROM OLD.date_of_birth THEN
        INSERT INTO outbox (kind, user_id, version) VALUES ('user_birthday_changed', NEW.id, NEW.version);
    END IF;
    IF NEW.deleted_at IS NOT NULL AND OLD.deleted_at IS NULL THEN
        INSERT INTO outbox (kind, user_id, version) VALUES ('user_deleted', NEW.id, NEW.version);
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION :"schema".outbox_series() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    IF TG_RELID <> 'series'::regclass::oid OR TG_OP NOT IN ('INSERT', 'UPDATE') THEN
        RAISE insufficient_privilege USING MESSAGE = 'outbox_series is for inserts and updates of series alone';
    END IF;
    INSERT INTO outbox (kind, user_id, event_id, event_type, version)
    VALUES ('event_created', NEW.user_id, NEW.event_id, NEW.event_type, NEW.version);
    RETURN NULL;
END
$$;

CREATE FUNCTION :"schema".outbox_history() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
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
    -- Consumers who have not read a row yet must not miss it.
    DELETE FROM outbox o
    WHERE o.user_id = OLD.id
        AND NOT EXISTS (
            SELECT
            FROM outbox_consumers c
            WHERE NOT pg_visible_in_snapshot(o.transaction_id, c.seen)
                AND NOT (o.sequence <= c.last AND pg_visible_in_snapshot(o.transaction_id, c.reading))
        );
    RETURN OLD;
END
$$;

-- PUBLIC neither executes nor writes anything, whatever default privileges the database has.
REVOKE ALL ON FUNCTION :"schema".outbox_user(), :"schema".outbox_series(), :"schema".outbox_history() FROM PUBLIC;

REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON :"schema".outbox, :"schema".outbox_consumers FROM PUBLIC;

REVOKE USAGE, UPDATE ON SEQUENCE :"schema".outbox_sequence_seq FROM PUBLIC;

COMMENT ON TABLE :"schema".outbox IS 'Domain events for other services, while the outbox is on';
COMMENT ON TABLE :"schema".outbox_consumers IS 'How far each consumer has read the outbox';
COMMENT ON INDEX :"schema".outbox_transaction IS 'What a transaction has written that was open when a consumer read';
COMMENT ON INDEX :"schema".outbox_user IS 'What is about a user, to be forgotten with them';
