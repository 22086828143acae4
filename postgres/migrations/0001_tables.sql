-- The tables as they were at first.
CREATE TABLE :"schema".users (
    id            uuid         NOT NULL,
    first_name    varchar(100) NOT NULL,
    last_name     varchar(100) NOT NULL,

    date_of_birth date         NOT NULL,
    timezone      varchar(100) NOT NULL,
    attributes    jsonb        NOT NULL DEFAULT '{}',
    version       integer      NOT NULL DEFAULT 1,
    deleted_at    timestamptz,
    created_at    timestamptz  NOT NULL DEFAULT now(),
    updated_at    timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT users_pkey PRIMARY KEY (id),
    CONSTRAINT users_first_name_check CHECK (length(first_name) > 0),
    CONSTRAINT users_last_name_check CHECK (length(last_name) > 0),
    CONSTRAINT users_date_of_birth_check CHECK (date_of_birth BETWEEN '1900-01-01' AND '9999-12-31'),
    CONSTRAINT users_timezone_check CHECK (length(timezone) > 0),
    CONSTRAINT users_attributes_check CHECK (jsonb_typeof(attributes) = 'object')
);

CREATE INDEX users_deleted ON :"schema".users (id) WHERE deleted_at IS NOT NULL;

CREATE TABLE :"schema".events (
    id                     uuid         NOT NULL,
    user_id                uuid         NOT NULL,
    event_type             varchar(50)  NOT NULL DEFAULT 'BIRTHDAY',

    occurrence_key         varchar(100) COLLATE "C" NOT NULL,
    status                 varchar(20)  NOT NULL DEFAULT 'PENDING',
    target_timestamp_utc   timestamptz  NOT NULL,
    target_timestamp_local timestamp    NOT NULL,
    target_timezone        varchar(100) NOT NULL,
    policies               varchar(100) NOT NULL,
    idempotency_key        varchar(255) NOT NULL,
    delivery_payload       jsonb        NOT NULL,
    user_version           integer      NOT NULL,
    available_at           timestamptz,
    lease_token            uuid,
    executed_at            timestamptz,
    failure_reason         varchar(1100),
    last_error             varchar(1100),

    retry_count            integer      NOT NULL DEFAULT 0,
    claim_count            integer      NOT NULL DEFAULT 0,
    crash_count            integer      NOT NULL DEFAULT 0,
    version                integer      NOT NULL DEFAULT 1,
    created_at             timestamptz  NOT NULL DEFAULT now(),
    updated_at             timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT events_pkey PRIMARY KEY (id),
    CONSTRAINT events_user_id_fkey FOREIGN KEY (user_id) REFERENCES :"schema".users (id) ON DELETE CASCADE,

    CONSTRAINT events_occurrence_key UNIQUE (user_id, event_type, occurrence_key),
    CONSTRAINT events_idempotency_key UNIQUE (idempotency_key),
    CONSTRAINT events_status_check CHECK (status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED')),
    CONSTRAINT events_available_check CHECK ((status = 'PENDING') = (available_at IS NOT NULL)),
    CONSTRAINT events_lease_check CHECK ((status = 'PENDING') = (lease_token IS NULL)),
    CONSTRAINT events_executed_check CHECK ((status = 'COMPLETED') = (executed_at IS NOT NULL)),
    CONSTRAINT events_failure_check CHECK ((status = 'FAILED') = (failure_reason IS NOT NULL)),
    CONSTRAINT events_counters_check CHECK (retry_count >= 0 AND claim_count >= 0 AND crash_count >= 0)
)
WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX events_available ON :"schema".events (available_at, id) WHERE available_at IS NOT NULL;

CREATE INDEX events_pending ON :"schema".events (id) WHERE available_at IS NOT NULL;

CREATE INDEX events_failed ON :"schema".events (id) WHERE failure_reason IS NOT NULL;

CREATE TABLE :"schema".leases (
    token      uuid        NOT NULL,
    owner      varchar(200) NOT NULL,
    event_ids  uuid[]      NOT NULL,
    claimed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT leases_pkey PRIMARY KEY (token)
);

CREATE FUNCTION :"schema".refuse_event_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'event % may not change from % at version % to % at version %',
        OLD.id, OLD.status, OLD.version, NEW.status, NEW.version
        USING ERRCODE = 'check_violation', CONSTRAINT = 'events_guard',
              HINT = 'Terminal events never change, versions rise by one, and an event keeps its identity and, once claimed, its target.';
END
$$;

CREATE TRIGGER events_guard BEFORE UPDATE ON :"schema".events FOR EACH ROW
WHEN (
    OLD.status IN ('COMPLETED', 'FAILED')
    OR (OLD.status = 'PENDING' AND NEW.status NOT IN ('PENDING', 'PROCESSING'))
    OR (OLD.status = 'PROCESSING' AND NEW.status = 'PROCESSING')
    OR NEW.version <> OLD.version + 1
    OR NEW.id <> OLD.id
    OR NEW.user_id <> OLD.user_id
    OR NEW.event_type <> OLD.event_type
    OR NEW.idempotency_key <> OLD.idempotency_key
    OR (OLD.claim_count > 0 AND (
        NEW.target_timestamp_utc <> OLD.target_timestamp_utc
        OR NEW.target_timestamp_local <> OLD.target_timestamp_local
        OR NEW.target_timezone <> OLD.target_timezone
        OR NEW.occurrence_key <> OLD.occurrence_key))
)
EXECUTE FUNCTION :"schema".refuse_event_change();

COMMENT ON TABLE :"schema".users IS 'People whom events are for';
COMMENT ON TABLE :"schema".events IS 'What people are owed, one row per occurrence';
COMMENT ON TABLE :"schema".leases IS 'Claims in force, one row per claimed batch';
COMMENT ON COLUMN :"schema".events.version IS 'Optimistic locking: raised by one by every change';
COMMENT ON COLUMN :"schema".events.idempotency_key IS 'Sent with every attempt, so that receivers can tell repeats';
