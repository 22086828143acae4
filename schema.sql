-- The database schema of Almanac, whole. The migrations of package postgres add up to this file.
-- :"schema" is the PostgreSQL schema that holds it, which must exist: psql -v schema=almanac -f schema.sql

-- People whom events are for. A host with a users table of its own writes this projection of it in the same transaction.
CREATE TABLE :"schema".users (
    id            uuid         NOT NULL,
    first_name    varchar(100) NOT NULL,
    last_name     varchar(100) NOT NULL,
    -- Whether a date lies in the future depends on where the person lives, so the program judges that; this is a range of sanity.
    date_of_birth date         NOT NULL,
    timezone      varchar(100) NOT NULL,              -- an IANA name as it was given, spelt as the database of zones spells it
    attributes    jsonb        NOT NULL DEFAULT '{}', -- facts for handlers, such as a hire date
    version       integer      NOT NULL DEFAULT 1,
    deleted_at    timestamptz,                        -- deleted while a delivery was in flight: hidden, and removed when it has ended
    created_at    timestamptz  NOT NULL DEFAULT now(),
    updated_at    timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT users_pkey PRIMARY KEY (id),
    CONSTRAINT users_first_name_check CHECK (length(first_name) > 0),
    CONSTRAINT users_last_name_check CHECK (length(last_name) > 0),
    CONSTRAINT users_date_of_birth_check CHECK (date_of_birth BETWEEN '1900-01-01' AND '9999-12-31'),
    CONSTRAINT users_timezone_check CHECK (length(timezone) > 0),
    CONSTRAINT users_attributes_check CHECK (jsonb_typeof(attributes) = 'object')
);

-- The few users who are deleted and not yet removed.
CREATE INDEX users_deleted ON :"schema".users (id) WHERE deleted_at IS NOT NULL;

-- What people are owed: one row per occurrence.
CREATE TABLE :"schema".events (
    id                     uuid         NOT NULL, -- UUIDv7: in order of creation; of a successor, that of its series
    user_id                uuid         NOT NULL,
    event_type             varchar(50)  NOT NULL DEFAULT 'BIRTHDAY',
    -- Names the occurrence for ever, such as '2027': nominal and local, never an instant. Compared byte by byte.
    occurrence_key         varchar(100) COLLATE "C" NOT NULL,
    status                 varchar(20)  NOT NULL DEFAULT 'PENDING',
    target_timestamp_utc   timestamptz  NOT NULL, -- the instant, which follows from the next two
    target_timestamp_local timestamp    NOT NULL, -- the wall time; a timestamptz could not hold one
    target_timezone        varchar(100) NOT NULL,
    policies               varchar(100) NOT NULL, -- how the wall time was resolved: gap,fold,leap day,month end
    idempotency_key        varchar(255) NOT NULL, -- fixed at birth, sent with every attempt
    delivery_payload       jsonb        NOT NULL, -- fixed by the first claim
    user_version           integer      NOT NULL, -- the version of the user that the row was planned from
    available_at           timestamptz,           -- while PENDING: when it can be claimed; later than the target after a release
    lease_token            uuid,                  -- of the claim that holds the row or that ended it
    executed_at            timestamptz,           -- when it was delivered
    failure_reason         varchar(1100),         -- why it is FAILED
    last_error             varchar(1100),         -- why the last attempt came to nothing
    -- Limits on counters are enforced where a row is released, never by a CHECK: a claim that violates one stops the queue.
    retry_count            integer      NOT NULL DEFAULT 0, -- attempts that failed
    claim_count            integer      NOT NULL DEFAULT 0, -- claims; a row once claimed keeps its target
    crash_count            integer      NOT NULL DEFAULT 0, -- leases that ran out
    version                integer      NOT NULL DEFAULT 1,
    created_at             timestamptz  NOT NULL DEFAULT now(),
    updated_at             timestamptz  NOT NULL DEFAULT now(),
    CONSTRAINT events_pkey PRIMARY KEY (id),
    CONSTRAINT events_user_id_fkey FOREIGN KEY (user_id) REFERENCES :"schema".users (id) ON DELETE CASCADE,
    -- An occurrence exists once, whatever becomes of zones, birthdays and clocks. Also finds the events of a user.
    CONSTRAINT events_occurrence_key UNIQUE (user_id, event_type, occurrence_key),
    CONSTRAINT events_idempotency_key UNIQUE (idempotency_key),
    CONSTRAINT events_status_check CHECK (status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED')),
    CONSTRAINT events_available_check CHECK ((status = 'PENDING') = (available_at IS NOT NULL)),
    CONSTRAINT events_lease_check CHECK ((status = 'PENDING') = (lease_token IS NULL)),
    CONSTRAINT events_executed_check CHECK ((status = 'COMPLETED') = (executed_at IS NOT NULL)),
    CONSTRAINT events_failure_check CHECK ((status = 'FAILED') = (failure_reason IS NOT NULL)),
    CONSTRAINT events_counters_check CHECK (retry_count >= 0 AND claim_count >= 0 AND crash_count >= 0)
)
-- Room on each page for the next version of its rows: the terminal update touches no indexed column and stays on the page.
WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- What a claim walks. The status is not in it: the claim empties available_at, and that takes the row out.
CREATE INDEX events_available ON :"schema".events (available_at, id) WHERE available_at IS NOT NULL;

-- Pages of pending events in order of creation, however long the history before them.
CREATE INDEX events_pending ON :"schema".events (id) WHERE available_at IS NOT NULL;

-- Failures, which are few among many. The predicate avoids the status, which would make every terminal update move in all indexes.
CREATE INDEX events_failed ON :"schema".events (id) WHERE failure_reason IS NOT NULL;

-- One row per claimed batch. An event is held by the lease whose token it carries.
CREATE TABLE :"schema".leases (
    token      uuid        NOT NULL,
    owner      varchar(200) NOT NULL, -- who holds it, for people who look; decides nothing
    event_ids  uuid[]      NOT NULL,  -- what was claimed, so that no index on lease_token is needed
    claimed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT leases_pkey PRIMARY KEY (token)
);

-- Which rules the instants of pending events follow, one row per zone. Not every host has the same zone data.
CREATE TABLE :"schema".zone_rules (
    zone        varchar(100) NOT NULL, -- an IANA name; a link has a row of its own
    fingerprint bigint       NOT NULL, -- of the changes of clocks in the ten years from since on
    since       integer      NOT NULL, -- a year
    version     varchar(100) NOT NULL, -- the release of the zone data, such as 2026f; empty where it did not say
    recheck     timestamptz,           -- until when events may be stored that follow other rules; NULL when there is no doubt
    CONSTRAINT zone_rules_pkey PRIMARY KEY (zone)
);

-- The last line of defence against old programs and statements by hand. It never runs on the normal path: the trigger's
-- condition is false there.
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
COMMENT ON TABLE :"schema".zone_rules IS 'Which zone rules the instants of pending events follow';
COMMENT ON COLUMN :"schema".events.version IS 'Optimistic locking: raised by one by every change';
COMMENT ON COLUMN :"schema".events.idempotency_key IS 'Sent with every attempt, so that receivers can tell repeats';
