-- The complete database schema of Almanac, and its first migration, which postgres.Migrate applies. With psql, apply it to a database
-- that does not have the schema yet. Programs then find the database migrated:
--
--   psql --single-transaction -v ON_ERROR_STOP=1 -v schema=almanac -f schema.sql
--
-- :"schema" is the PostgreSQL schema that holds the tables. psql does not replace variables between dollar quotes, so each function
-- sets its own search_path to find the tables.
--
-- Operators and functions are called with exactly the types that pg_catalog defines, or with the name pg_catalog. So PostgreSQL never
-- prefers an operator or function of another schema, as long as pg_catalog comes first in the search_path. It does, unless the path
-- names another schema before it; then the first statement puts it first until the end of the file. Before PostgreSQL 15, every role
-- may create operators and functions in the schema public.
SELECT pg_catalog.set_config('search_path', pg_catalog.concat('pg_catalog, ', pg_catalog.current_setting('search_path')), true)
WHERE pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.~*) 'pg_catalog';

CREATE SCHEMA IF NOT EXISTS :"schema";

-- In all tables:
--   - Programs make the ids of users and events, as UUIDv7: a new row goes to the right edge of the primary key, and no extension is
--     needed. So these columns have no default, and a row that no program made is refused.
--   - Instants and wall times are in the years 1 to 9999, and what Go parses has the form that it expects: one row that cannot be read
--     would fail every statement that returns it together with others. For the same reason, statements that add to an integer cannot
--     overflow it: see series_guard.
--   - A text in an index has COLLATE "C": an index in another collation is wrong after an upgrade of the C library.
--   - Texts have the type text, with a CHECK where a length is limited: see docs/adr/0063-search-path.md. event_type has no default,
--     because a row without a type is a mistake.
--   - Each event pays for an index when it is created, and when an indexed column changes. So an index serves a statement or a Spec, and
--     none has the status: the table that has the row says it. Statements set updated_at; a trigger would cost each update a call.

-- The migrations that were applied.
CREATE TABLE :"schema".migrations (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- The users of the events. A host with a users table of its own writes this copy of it in the same transaction.
CREATE TABLE :"schema".users (
    id            uuid PRIMARY KEY,
    first_name    text NOT NULL CHECK (length(first_name) <= 100), -- '' if the user has none
    last_name     text NOT NULL CHECK (length(last_name) <= 100), -- '' if the user has none
    -- NULL if it is not known. If only the year is not known, it is in the year 4, a leap year, which has each day: '0004-02-29'. A
    -- flag could disagree with the date. The check only excludes absurd dates. Whether a date is in the future depends on the user's zone,
    -- so the program checks that.
    date_of_birth date CHECK (date_of_birth BETWEEN '1900-01-01' AND '9999-12-31'
        OR date_of_birth BETWEEN '0004-01-01' AND '0004-12-31'),
    -- A date of birth by another calendar, in place of date_of_birth: the name of the calendar, such as 'hebrew', and the day as it was
    -- given, '5774-05L-08', or '05L-08' without its year. L marks a leap month. It is never converted: see docs/adr/0075-births.md. The
    -- program checks that the calendar has the day.
    birth_calendar text COLLATE "C" CHECK (birth_calendar ~ '^[a-z0-9-]{1,40}$'::text),
    birth_day     text COLLATE "C" CHECK (birth_day ~ '^((?!0000)[0-9]{4}-)?(?!00)[0-9]{2}L?-(?!00)[0-9]{2}$'::text),
    -- The IANA name that was given, in the spelling of the zone database.
    timezone      text COLLATE "C" NOT NULL CHECK (length(timezone) BETWEEN 1 AND 100),
    -- Where the zone comes from. A guess never replaces a declared zone: see docs/adr/0074-uncertain-zones.md.
    zone_source   text COLLATE "C" NOT NULL DEFAULT 'declared' CHECK (zone_source IN ('declared', 'guessed', 'default')),
    attributes    jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(attributes) = 'object'), -- facts for handlers, such as a hire date
    version       integer      NOT NULL DEFAULT 1 CHECK (version >= 1),
    deleted_at    timestamptz,                        -- set if the user is deleted, and hidden until a sweep has removed all rows
    created_at    timestamptz  NOT NULL DEFAULT now(),
    updated_at    timestamptz  NOT NULL DEFAULT now(),
    -- The digest of the request that created the user, if that request may be repeated.
    creation_digest text CHECK (length(creation_digest) <= 64),
    locale        text CHECK (length(locale) BETWEEN 1 AND 100), -- a language tag (BCP 47) in canonical form
    email         text CHECK (length(email) BETWEEN 1 AND 254),  -- an address as it was given; several users may have the same
    external_id   text COLLATE "C" CHECK (length(external_id) BETWEEN 1 AND 200), -- the host's own id of the user, compared byte by byte
    -- What the user refuses, such as [{"type": "BIRTHDAY"}, {"channel": "email"}]; {} is everything. NULL if nothing. A table of
    -- refusals would cost each claim a join. The check: an array of objects, whose values are strings.
    opt_outs      jsonb CHECK (jsonb_typeof(opt_outs) = 'array'
        AND pg_catalog.jsonb_path_query_array(opt_outs, '$[*].type()'::jsonpath) <@ '["object"]'::jsonb
        AND pg_catalog.jsonb_path_query_array(opt_outs, '$[*].*.type()'::jsonpath) <@ '["string"]'::jsonb),
    -- The names and the address without case, for searches. The program writes them, because what the server takes for the same letter
    -- depends on its locale. '' in rows that another program has inserted: no search by name finds these users.
    folded_name      text COLLATE "C" NOT NULL DEFAULT '', -- the full name
    folded_last_name text COLLATE "C" NOT NULL DEFAULT '',
    folded_email     text COLLATE "C",                     -- NULL if there is no address
    CONSTRAINT users_birth_check CHECK ((birth_calendar IS NULL) = (birth_day IS NULL) AND (birth_day IS NULL OR date_of_birth IS NULL)),
    CONSTRAINT users_instants_check CHECK (least(created_at, updated_at, deleted_at) >= '0001-01-01 00:00:00+00'
        AND greatest(created_at, updated_at, deleted_at) < '10000-01-01 00:00:00+00')
);

-- Finds the few users who are deleted and not yet removed.
CREATE INDEX users_deleted ON :"schema".users (id) WHERE deleted_at IS NOT NULL;

-- No two users have the same external id. Users without one have no entry. A deleted user has none either, so the id is free as soon
-- as the user is deleted. See docs/adr/0051-contacts.md.
CREATE UNIQUE INDEX users_external_id ON :"schema".users (external_id) WHERE external_id IS NOT NULL AND deleted_at IS NULL;

-- Find users by the beginning of their full names and of their last names, and by e-mail address, in upper or lower case. Lists by name
-- are in the order of the index, so a page reads its own rows only. Indexes of words or trigrams have no such order.
CREATE INDEX users_full_name ON :"schema".users (folded_name, id) WHERE deleted_at IS NULL;
CREATE INDEX users_last_name ON :"schema".users (folded_last_name, id) WHERE deleted_at IS NULL;
CREATE INDEX users_email ON :"schema".users (folded_email, id) WHERE folded_email IS NOT NULL AND deleted_at IS NULL;

-- Finds the users whose zone is not declared. A host that always knows the zone has no entry.
CREATE INDEX users_zone_source ON :"schema".users (zone_source, id) WHERE zone_source <> 'declared' AND deleted_at IS NULL;

-- Finds the users of a zone in the order of their ids, for broadcasts, and the zones that users have. An edit changes the zone seldom.
CREATE INDEX users_zone ON :"schema".users (timezone, id) WHERE deleted_at IS NULL;

-- One row per series of a user, with the open event of the series. The successor of the event replaces it in the row. No index has
-- the columns that this changes, so the new version of the row stays on its page (HOT). See docs/adr/0024-live-rows.md.
CREATE TABLE :"schema".series (
    id                     bigint       PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    -- The columns of indexes come first: each update compares them with those before, and reads a row from its beginning.
    user_id                uuid         NOT NULL REFERENCES :"schema".users (id),
    -- The user, while there is an open event. A successor does not change it, so it can be indexed, and the row still stays on its page. An
    -- index WHERE event_id IS NOT NULL would have a column that each successor changes.
    open_user_id           uuid         GENERATED ALWAYS AS (CASE WHEN event_id IS NOT NULL THEN user_id END) STORED,
    event_type             text COLLATE "C" NOT NULL CHECK (length(event_type) <= 50),
    -- Given by the handler. Empty if the handler has a single series.
    name                   text COLLATE "C" NOT NULL CHECK (length(name) <= 100),
    -- Empty for the series that handlers plan. Each detached event has a series of its own. Then this is the origin, a colon, and the
    -- occurrence key, or for a requeued event the id of the event that it repeats. The value is only compared, never parsed.
    detached               text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(detached) <= 100),
    current_user_version   integer      NOT NULL, -- the user's current version, while open: a plan from another version is repeated
    -- The last used occurrence, of the event that ended last. Its key and all lower keys of the unit are used up for ever. Empty or
    -- NULL if no event has ended.
    used_unit              text NOT NULL DEFAULT '', -- what the key names: see key_unit
    used_key               text COLLATE "C" NOT NULL DEFAULT '',
    used_nominal           timestamp,             -- the wall time of the occurrence: see nominal_local
    used_local             timestamp,             -- what clocks in the user's zone showed when the event ended
    -- The last used occurrences of other units: {"day": [key, nominal, local]}. NULL unless the rule of the series has changed.
    used_others            jsonb,
    event_id               uuid,                  -- the open event, a UUIDv7; NULL if there is none: then the columns below are of the last event
    -- Given by the handler or the host, such as '2027': nominal and local, never an instant. It names the occurrence in its series for
    -- ever. Keys are compared byte by byte. See docs/adr/0006-identity.md.
    occurrence_key         text COLLATE "C" NOT NULL CHECK (length(occurrence_key) <= 100),
    key_unit               text NOT NULL DEFAULT '' CHECK (length(key_unit) <= 50), -- time, day, month or year, of another calendar as in year:hebrew; empty for a text of the host's
    target_timestamp_utc   timestamptz  NOT NULL, -- the instant, which follows from the next two
    target_timestamp_local timestamp    NOT NULL, -- the wall time; a timestamptz could not hold one
    nominal_local          timestamp,             -- the wall time before the rule or an operator moved it; NULL if it is the target
    target_timezone        text NOT NULL CHECK (length(target_timezone) <= 100),
    policies               text NOT NULL CHECK (length(policies) <= 100), -- how the wall time was resolved: gap,fold,leap day,month end; of a rule by another calendar also missing month,missing day
    idempotency_key        text NOT NULL CHECK (length(idempotency_key) <= 255), -- fixed when the event is created, sent with every attempt
    key_instant            timestamptz,           -- the target when the event was created, which its key hashes; NULL if it never moved
    ready_at               timestamptz,           -- when the event can first be claimed, if after its target: its type is spread, or the target was past when it was set; else NULL
    delivery_payload       jsonb        NOT NULL, -- fixed by the first claim
    user_version           integer      NOT NULL, -- the version of the user that the event was planned from
    last_error             text CHECK (length(last_error) <= 1100), -- why the last attempt failed or was released
    -- The program limits the counters when it releases an event. A CHECK for these limits would let one event stop all claims.
    -- See docs/adr/0002-limits-outside-checks.md.
    retry_count            integer      NOT NULL DEFAULT 0, -- attempts that failed
    claim_count            integer      NOT NULL DEFAULT 0, -- claims that ended with a release; above zero, the event keeps its target
    crash_count            integer      NOT NULL DEFAULT 0, -- leases that expired
    version                integer      NOT NULL DEFAULT 1, -- while PENDING; while a lease holds the event, its version is one more
    created_at             timestamptz  NOT NULL DEFAULT now(),
    updated_at             timestamptz  NOT NULL DEFAULT now(),
    origin_event           uuid,                  -- the event that a follow-up follows or a requeued event repeats; NULL for other events
    -- The origin of the event: scheduled (by the host), follow-up or requeued. This and the next two are NULL for a planned event.
    origin                 text,
    follows_user           boolean,               -- for a scheduled or requeued event: whether it moves to another zone with its user
    payload_made           boolean,               -- for a scheduled or requeued event: whether the handler makes the payload
    forced                 boolean,               -- for a requeued event: whether it is delivered whatever its user refuses; NULL if not
    lane                   text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(lane) <= 100), -- given by the handler; empty for the lane of the type
    -- Its index also finds all series of a user.
    CONSTRAINT series_name_key UNIQUE (user_id, event_type, name, detached),
    CONSTRAINT series_origin_check CHECK ((origin IS NULL) = (detached = '')),
    CONSTRAINT series_used_check CHECK ((used_key = '') = (used_nominal IS NULL) AND (used_key = '') = (used_local IS NULL)),
    CONSTRAINT series_counters_check CHECK (retry_count >= 0 AND claim_count >= 0 AND crash_count >= 0 AND version >= 1),
    CONSTRAINT series_instants_check CHECK (
        least(target_timestamp_utc, key_instant, ready_at, created_at, updated_at) >= '0001-01-01 00:00:00+00'
        AND greatest(target_timestamp_utc, key_instant, ready_at, created_at, updated_at) < '10000-01-01 00:00:00+00'),
    CONSTRAINT series_walls_check CHECK (least(target_timestamp_local, nominal_local, used_nominal, used_local) >= '0001-01-01'
        AND greatest(target_timestamp_local, nominal_local, used_nominal, used_local) < '10000-01-01')
)
-- The fillfactor leaves space on each page for the next version of its rows.
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Finds the open series of a user. Series without an open event stay in the table, because of the keys that they have used up, but
-- do not slow edits down.
CREATE INDEX series_open ON :"schema".series (open_user_id) WHERE open_user_id IS NOT NULL;

-- The open events that are PENDING. A claim scans this table and deletes the claimed rows. A change replaces the row and never updates
-- it. So a claim that has read the series from before a change cannot lock the old row any more.
CREATE TABLE :"schema".queue (
    available_at timestamptz NOT NULL, -- when the event can be claimed: its target, or a later time after a release or as ready_at
    event_id     uuid        PRIMARY KEY, -- its index also finds pages in order of creation, however long the history is
    series_id    bigint      NOT NULL,
    event_type   text COLLATE "C" NOT NULL,
    -- The target of a delayed event, whose available_at is later. NULL if available_at is the target, as for most events.
    delayed_from timestamptz,
    retry_count  integer,              -- attempts that failed, as in series; NULL if none has failed, as for most events
    lane         text COLLATE "C" NOT NULL DEFAULT '', -- as in series
    -- The calendars that the rule looked up, and the first and the last day: 'DE-BY@2026-11-02 2026-11-28 2026-12-28'. NULL if none, as for
    -- most events, and for events that were claimed. See docs/adr/0077-calendar-releases.md.
    consulted    text COLLATE "C" CHECK (length(consulted) <= 450),
    CONSTRAINT queue_instants_check CHECK (least(available_at, delayed_from) >= '0001-01-01 00:00:00+00'
        AND greatest(available_at, delayed_from) < '10000-01-01 00:00:00+00')
)
WITH (autovacuum_vacuum_scale_factor = 0.02);

-- Has a range for each type, and in it for each lane, with the oldest event first. So pending events of one type or lane do not slow claims
-- from another one down.
CREATE INDEX queue_due ON :"schema".queue (event_type, lane, available_at, event_id);

-- Finds delayed events by target. Together with queue_due it finds all pending events by target. Only released events have an entry.
CREATE INDEX queue_delayed ON :"schema".queue (delayed_from) WHERE delayed_from IS NOT NULL;

-- Finds the events that wait for another attempt after a failed one, by type. Only these events have an entry. See
-- docs/adr/0066-retries.md.
CREATE INDEX queue_retries ON :"schema".queue (event_type, available_at, event_id) WHERE retry_count IS NOT NULL;

-- Finds the events that an older release of a calendar has planned. Only events of rules that look up calendars have an entry.
CREATE INDEX queue_consulted ON :"schema".queue (event_type, consulted, event_id) WHERE consulted IS NOT NULL;

-- The events that have ended: COMPLETED, FAILED or CANCELLED. A row is inserted once, never changed, and deleted by pruning.
CREATE TABLE :"schema".history (
    id                     uuid         PRIMARY KEY, -- in order of creation; a successor's id is only ordered within its series
    user_id                uuid         NOT NULL, -- no foreign key: its check would write to the user for each event that ends
    event_type             text COLLATE "C" NOT NULL CHECK (length(event_type) <= 50),
    occurrence_key         text COLLATE "C" NOT NULL,
    key_unit               text NOT NULL DEFAULT '',
    status                 text NOT NULL CHECK (status IN ('COMPLETED', 'FAILED', 'CANCELLED')),
    target_timestamp_utc   timestamptz  NOT NULL,
    target_timestamp_local timestamp    NOT NULL,
    nominal_local          timestamp,
    target_timezone        text NOT NULL CHECK (length(target_timezone) <= 100),
    policies               text NOT NULL,
    idempotency_key        text NOT NULL,
    key_instant            timestamptz,
    ready_at               timestamptz,
    delivery_payload       jsonb        NOT NULL,
    user_version           integer      NOT NULL,
    lease_token            uuid,                  -- the token of the claim that ended the event; NULL if it was cancelled while PENDING
    executed_at            timestamptz,           -- when the event was delivered
    failure_reason         text CHECK (length(failure_reason) <= 1100), -- why the event is FAILED or CANCELLED; may be empty if CANCELLED
    last_error             text,
    retry_count            integer      NOT NULL,
    claim_count            integer      NOT NULL,
    crash_count            integer      NOT NULL,
    version                integer      NOT NULL,
    created_at             timestamptz  NOT NULL,
    updated_at             timestamptz  NOT NULL, -- when the event ended
    origin_event           uuid,                  -- this column and the next ones as in series
    series_name            text COLLATE "C" NOT NULL DEFAULT '',
    origin                 text,
    follows_user           boolean,
    payload_made           boolean,
    forced                 boolean,
    lane                   text COLLATE "C" NOT NULL DEFAULT '',
    CONSTRAINT history_executed_check CHECK ((status = 'COMPLETED') = (executed_at IS NOT NULL)),
    CONSTRAINT history_failure_check CHECK ((status = 'COMPLETED') = (failure_reason IS NULL)),
    CONSTRAINT history_instants_check CHECK (
        least(target_timestamp_utc, key_instant, ready_at, executed_at, created_at, updated_at) >= '0001-01-01 00:00:00+00'
        AND greatest(target_timestamp_utc, key_instant, ready_at, executed_at, created_at, updated_at) < '10000-01-01 00:00:00+00'),
    CONSTRAINT history_walls_check CHECK (least(target_timestamp_local, nominal_local) >= '0001-01-01'
        AND greatest(target_timestamp_local, nominal_local) < '10000-01-01')
);

CREATE INDEX history_user ON :"schema".history (user_id);

-- Finds events by type and target. Events with the same type and target share an entry.
CREATE INDEX history_due ON :"schema".history (event_type, target_timestamp_utc);

-- Finds failures and cancellations, which are few among many events.
CREATE INDEX history_failed ON :"schema".history (id) WHERE failure_reason IS NOT NULL;

-- Counts the ended events of broadcasts, by zone, and finds those that were cancelled. An event of a broadcast is in the lane of its type and its
-- occurrence key. Other events have no entry. IS TRUE, because the planner replaces an equality of columns if one of them is given, and then
-- does not see that it implies the condition of the index.
CREATE INDEX history_broadcasts ON :"schema".history (lane, id) INCLUDE (target_timezone, status)
    WHERE origin IN ('scheduled', 'requeued') AND (lane = event_type || '/'::text || occurrence_key) IS TRUE;

-- Stalled series: their next event is still to be planned, because the handler failed when their last event ended, or because a program
-- without the handler cancelled that event. A program with the handler plans it. A row is valid as long as the series has no open event
-- and has used up no other key since.
CREATE TABLE :"schema".unplanned (
    series_id  bigint       PRIMARY KEY,
    user_id    uuid         NOT NULL,
    event_type text COLLATE "C" NOT NULL,
    used_unit  text        NOT NULL DEFAULT '', -- what the next column names
    used_key   text COLLATE "C" NOT NULL, -- the occurrence key of the last event
    last_error text,                      -- why the handler failed; NULL if no program with the handler has tried
    failures   integer     NOT NULL DEFAULT 0 CHECK (failures >= 0), -- attempts to plan that failed
    since      timestamptz NOT NULL DEFAULT now(),
    retry_at   timestamptz NOT NULL DEFAULT now(), -- when a program tries again
    CONSTRAINT unplanned_instants_check CHECK (least(since, retry_at) >= '0001-01-01 00:00:00+00'
        AND greatest(since, retry_at) < '10000-01-01 00:00:00+00')
);

-- Finds the series of a type to try again.
CREATE INDEX unplanned_retry ON :"schema".unplanned (event_type, retry_at, user_id);

CREATE INDEX unplanned_user ON :"schema".unplanned (user_id);

-- The idempotency keys of all events, open and ended. Each key belongs to one occurrence.
CREATE TABLE :"schema".keys (
    idempotency_key text COLLATE "C" PRIMARY KEY,
    holders         integer NOT NULL DEFAULT 1 -- the number of events with the key: one, and its requeued repeats
);

-- The instant before which idempotency keys may be missing, in one row. Events with earlier instants may have been pruned, with their
-- keys. An event that is planned for an earlier instant uses the long form of its key.
CREATE TABLE :"schema".pruning (
    id     boolean PRIMARY KEY DEFAULT true CHECK (id), -- so that there is one row
    before timestamptz NOT NULL
);

INSERT INTO :"schema".pruning (before) VALUES ('-infinity');

-- How many events are due in each quarter hour, by zone and type: pending, in flight and ended ones. A quarter hour is counted from 1970.
-- Without due_changes the numbers are old.
CREATE TABLE :"schema".due_counts (
    timezone   text COLLATE "C" NOT NULL CHECK (length(timezone) <= 100),
    quarter    integer NOT NULL,
    event_type text COLLATE "C" NOT NULL CHECK (length(event_type) <= 50),
    n          bigint  NOT NULL,
    CONSTRAINT due_counts_pkey PRIMARY KEY (timezone, quarter, event_type)
);

-- What transactions have added to the counts, and not yet folded into due_counts. A row is inserted once, never updated, and deleted by the
-- sweep. There is no index, because every sweep reads the whole table.
CREATE TABLE :"schema".due_changes (
    timezone   text COLLATE "C" NOT NULL CHECK (length(timezone) <= 100), -- as in due_counts, which could not take a longer text
    quarter    integer NOT NULL,
    event_type text COLLATE "C" NOT NULL CHECK (length(event_type) <= 50),
    n          integer NOT NULL -- negative if events were removed
);

ALTER TABLE :"schema".due_changes REPLICA IDENTITY FULL;

-- One row per claimed batch. A lease makes the events that it lists PROCESSING, as long as they are at the version at which they were
-- claimed. The token fences: later writes of the events name it. See docs/adr/0005-token-fence.md.
CREATE TABLE :"schema".leases (
    token      uuid        PRIMARY KEY,
    owner      text NOT NULL CHECK (length(owner) <= 200), -- the process that holds the lease; for information only
    -- The claimed events, as parallel arrays, in reverse order of delivery: so a search for an event that is still held ends early.
    series_ids bigint[]    NOT NULL,
    event_ids  uuid[]      NOT NULL,
    versions   integer[]   NOT NULL,
    claimed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    -- The time of the claim, if events were claimed that may not be due yet. No process begins such an event before its target, and an
    -- edit releases it until then. NULL if all events were due.
    ahead_since timestamptz,
    alone      uuid, -- the event that the holder tries alone, because one more crash makes it FAILED; NULL if none
    program    text,                 -- the program that holds the lease, such as 'birthdayd v0.1.0'; for information only, NULL if unknown
    zone_data  text,                 -- the release of that program's zone data, such as 2026f; NULL if unknown
    CONSTRAINT leases_instants_check CHECK (least(claimed_at, expires_at, ahead_since) >= '0001-01-01 00:00:00+00'
        AND greatest(claimed_at, expires_at, ahead_since) < '10000-01-01 00:00:00+00')
);

-- No compression: ids hardly compress, and the attempt would take a sixth of the time of a claim.
ALTER TABLE :"schema".leases ALTER COLUMN series_ids SET STORAGE EXTERNAL, ALTER COLUMN event_ids SET STORAGE EXTERNAL,
    ALTER COLUMN versions SET STORAGE EXTERNAL;

-- The zone rules that the instants of pending events follow, one row per zone. Hosts may have different zone data.
CREATE TABLE :"schema".zone_rules (
    zone        text COLLATE "C" PRIMARY KEY CHECK (length(zone) <= 100), -- an IANA name; a link (alias) has a row of its own
    fingerprint bigint       NOT NULL, -- of the clock changes in the ten years from the year since on
    since       integer      NOT NULL, -- a year
    version     text NOT NULL CHECK (length(version) <= 100), -- the release of the zone data, such as 2026f; empty if unknown
    recheck     timestamptz,           -- until when events that follow other rules may be stored; NULL if none are expected
    CONSTRAINT zone_rules_recheck_check CHECK (recheck >= '0001-01-01 00:00:00+00' AND recheck < '10000-01-01 00:00:00+00')
);

-- Marks: zone rules that differ from zone_rules and by which programs with other zone data have planned pending events. A mark is
-- stored in the transaction of the events. A process that compares rules takes the marks and checks the pending events of their zones.
CREATE TABLE :"schema".zone_marks (
    id          bigint       PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    zone        text COLLATE "C" NOT NULL CHECK (length(zone) <= 100), -- this column and the next ones as in zone_rules
    fingerprint bigint       NOT NULL,
    since       integer      NOT NULL,
    version     text NOT NULL CHECK (length(version) <= 100)
);

-- The calendars that the rules of handlers look up, in the newest release that a program has had: work calendars, and calendars such as the
-- Hebrew one, whose names begin with 'system:'. Programs may have different releases. See docs/adr/0077-calendar-releases.md.
CREATE TABLE :"schema".calendars (
    name    text COLLATE "C" PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 60),
    release text COLLATE "C" NOT NULL CHECK (length(release) <= 40), -- a date, and a counter behind a dot if the day has several releases
    until   date NOT NULL CHECK (until BETWEEN '0001-01-01' AND '9999-12-31'), -- the last day that is known
    since   integer NOT NULL CHECK (since BETWEEN 1 AND 9999), -- the first year of the arrays
    hashes  bigint[] NOT NULL, -- of what the release says of the days of each year
    changed text[] NOT NULL, -- the release in which each year changed last
    releases text[] NOT NULL, -- those that were stored, the newest last, at most twenty: others were never compared
    CONSTRAINT calendars_years_check CHECK (pg_catalog.cardinality(hashes) = pg_catalog.cardinality(changed))
);

-- The releases of zone rules and of calendars that wait for an operator, because they would change many pending events, or have waited.
-- One row per zone or calendar. Programs keep to the earlier release while answered_at is NULL. See docs/adr/0082-quarantine.md.
CREATE TABLE :"schema".quarantine (
    name        text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 100), -- as in zone_rules, or in calendars
    calendar    boolean      NOT NULL, -- whether it is a calendar
    release     text COLLATE "C" NOT NULL CHECK (length(release) <= 100), -- as in zone_rules, or in calendars
    changes     bigint       NOT NULL CHECK (changes BETWEEN 0 AND 1000000000000), -- how many pending events it would change, when they were counted
    largest     bigint       NOT NULL, -- the largest move, in microseconds; negative if the event would be earlier
    first_local timestamp, -- the first time at which an event starts at a wrong time if the release is right, by clocks there; NULL if unknown
    first_utc   timestamptz,
    since       timestamptz  NOT NULL,
    answered_at timestamptz, -- NULL while it waits
    accepted    boolean      NOT NULL, -- whether zone_rules or calendars have it since
    author      text CHECK (octet_length(author) <= 800), -- who answered: see audit.principal
    reason      text CHECK (octet_length(reason) <= 1010),
    PRIMARY KEY (calendar, name),
    CONSTRAINT quarantine_instants_check CHECK (least(first_utc, since, answered_at) >= '0001-01-01 00:00:00+00'
        AND greatest(first_utc, since, answered_at) < '10000-01-01 00:00:00+00'
        AND coalesce(first_local >= '0001-01-01 00:00:00' AND first_local < '10000-01-01 00:00:00', true)),
    CONSTRAINT quarantine_answer_check CHECK (answered_at IS NOT NULL OR NOT accepted AND author IS NULL AND reason IS NULL)
);

-- The lanes that have limits, or are paused, or were. A lane is what shares a capacity, such as a receiver: events start and are in flight
-- within its limits, over all processes. A type is a lane of the same name. Each claim reads this table, which is mostly empty, so that
-- limits and pauses take effect at once. If processes were notified instead, one that misses the notification would go on. Only operators
-- and pause_failing write it, so claims never wait for it. See docs/adr/0067-lanes.md.
CREATE TABLE :"schema".lanes (
    name         text COLLATE "C" PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 100), -- crm/tenant-7 is in crm
    rate         float8  CHECK (rate BETWEEN 1e-6::float8 AND 1e6::float8), -- how many events may start in a second; NULL if there is no limit
    burst        integer CHECK (burst BETWEEN 1 AND 1000000), -- how many may start at once after a time without starts; NULL without a rate
    places       integer CHECK (places BETWEEN 1 AND 10000), -- how many may be in flight; NULL if there is no limit
    daily        integer CHECK (daily BETWEEN 1 AND 1000000000), -- how many may start on one day, by UTC; NULL if there is no limit
    weight       integer CHECK (weight BETWEEN 1 AND 1000), -- its share of the room of the lane that it is in; NULL means 1
    paused_since timestamptz, -- NULL if the lane was never paused, or was resumed
    -- When the pause ends, or ended. NULL: when the lane is resumed. The end is kept: claims need it to find events that waited, which are
    -- before their mark.
    paused_until timestamptz,
    pause_reason text CHECK (octet_length(pause_reason) <= 1010),
    pause_author text CHECK (octet_length(pause_author) <= 800), -- the principal of the pause: see audit.principal; or breaker
    CONSTRAINT lanes_limits_check CHECK ((rate IS NULL) = (burst IS NULL)),
    CONSTRAINT lanes_pause_check CHECK (
        coalesce(paused_since >= '0001-01-01 00:00:00+00' AND paused_since < '10000-01-01 00:00:00+00', true)
        AND coalesce(paused_until >= '0001-01-01 00:00:00+00' AND paused_until < '10000-01-01 00:00:00+00', true)
        AND (paused_since IS NOT NULL OR pause_reason IS NULL AND pause_author IS NULL)
    )
);

-- The state of each lane with limits or a breaker: one row, which each claim from the lane replaces. The index ends with a number that each claim
-- raises. So a search from the greatest number meets the newest version of the row first, however many old versions an open transaction
-- keeps. A unique index would have to read all of them.
CREATE TABLE :"schema".lane_states (
    lane          text COLLATE "C" NOT NULL,
    step          bigint      NOT NULL DEFAULT 1,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(), -- of this step
    full_at       timestamptz NOT NULL, -- when all tokens of the rate are there again; unused without a rate
    day           date, -- of the last claim, by UTC; the day after it if the clock was set back since
    of_day        integer     NOT NULL DEFAULT 0, -- how many events have started on it
    of_eve        integer     NOT NULL DEFAULT 0, -- and on the day before
    -- How many events have started in five minutes, at the last claim: first in those that were the slot-th since 1970, then in the eleven
    -- before them.
    slot          integer     NOT NULL DEFAULT 0,
    started       integer[]   NOT NULL DEFAULT '{}' CHECK (pg_catalog.cardinality(started) <= 12),
    -- The events that were in flight at the last claim, if the number is limited: those whose series still has the version are in flight.
    held_series   bigint[]    NOT NULL DEFAULT '{}',
    held_ids      uuid[]      NOT NULL DEFAULT '{}',
    held_versions integer[]   NOT NULL DEFAULT '{}',
    -- No pending event of the lane became available before since, as of a search from the beginning at searched_at.
    since         timestamptz NOT NULL DEFAULT '-infinity',
    searched_at   timestamptz NOT NULL DEFAULT '-infinity',
    -- The breaker, if events of the lane have failed: see Breaker in lane.go. NULL: it is closed.
    allowed       integer CHECK (allowed >= 1), -- how many events may be in flight
    retry_at      timestamptz, -- no event is admitted before
    opened_at     timestamptz,
    failures      integer     NOT NULL DEFAULT 0 CHECK (failures BETWEEN 0 AND 1000),
    answer_ids    uuid[], -- the events that the receiver has answered last; NULL if there are none
    answers_at    timestamptz[], -- when they were claimed
    answers_fail  boolean[],
    CONSTRAINT lane_states_breaker_check CHECK (
        (allowed IS NULL) = (retry_at IS NULL) AND (allowed IS NULL) = (opened_at IS NULL)
        AND coalesce(retry_at >= '0001-01-01 00:00:00+00' AND retry_at < '10000-01-01 00:00:00+00', true)
        AND coalesce(opened_at >= '0001-01-01 00:00:00+00' AND opened_at < '10000-01-01 00:00:00+00', true)
        AND pg_catalog.cardinality(answer_ids) IS NOT DISTINCT FROM pg_catalog.cardinality(answers_at)
        AND pg_catalog.cardinality(answer_ids) IS NOT DISTINCT FROM pg_catalog.cardinality(answers_fail)
    )
);

CREATE INDEX lane_states_newest ON :"schema".lane_states (lane, step);

ALTER TABLE :"schema".lane_states REPLICA IDENTITY FULL;

-- When all buckets were empty because the clock had been set or another server had started, when the server
-- had started that the last claim saw, and what the clock showed then, to a minute. One row.
CREATE TABLE :"schema".lane_clock (
    one        boolean     PRIMARY KEY DEFAULT true CHECK (one),
    emptied_at timestamptz NOT NULL DEFAULT '-infinity',
    server     timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
    seen_at    timestamptz NOT NULL DEFAULT '-infinity' -- a claim has read this time; later ones may have read up to a minute more
);

INSERT INTO :"schema".lane_clock DEFAULT VALUES;

-- When lanes with names are to be looked at. A trigger on the queue adds a visit for the lane of a new event, and claims delete the visits
-- that they have seen, so no transaction waits for another. For each event of a type in a lane there is a visit that is not later than the
-- event or the next room of the lane. A lane that is in another one is found through a visit of that one.
CREATE TABLE :"schema".visits (
    scope      text COLLATE "C" NOT NULL, -- the lane that the lane is in; '' if it is in none
    event_type text COLLATE "C" NOT NULL,
    at         timestamptz NOT NULL CHECK (at >= '0001-01-01 00:00:00+00' AND at < '10000-01-01 00:00:00+00'),
    lane       text COLLATE "C" NOT NULL,
    since      timestamptz NOT NULL, -- the first event for which this visit is became available then; '-infinity' if unknown
    -- How much of the room of the lane that it is in this lane has had, divided by its weight, in comparison with others. -1 for a lane that
    -- waits, and for one that is in none.
    pass       float8      NOT NULL DEFAULT -1,
    -- For the lanes in this one that have events of the type: none has a pass below, but -1. So -1 if it is unknown, and NULL if the visit is
    -- for events of the lane itself alone.
    turn       float8
)
WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX visits_due ON :"schema".visits (scope, event_type, pass, at, lane);
CREATE INDEX visits_lane ON :"schema".visits (lane, at, event_type);

ALTER TABLE :"schema".visits REPLICA IDENTITY FULL;

-- Broadcasts: one event for each of many users. Its events are in the lane event_type/name, and name is their occurrence key. See
-- docs/adr/0078-broadcasts.md.
CREATE TABLE :"schema".broadcasts (
    name        text COLLATE "C" PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 90 AND strpos(name, '/') = 0),
    event_type  text COLLATE "C" NOT NULL CHECK (length(event_type) <= 50),
    payload     jsonb,                -- NULL: the handler makes it
    wall        timestamp,            -- the wall time in the zone of each user, or NULL
    instant     timestamptz,          -- the instant of all events, or NULL
    passed      text        NOT NULL CHECK (passed IN ('now', 'skip', 'next-day')), -- where the time had passed at created_at
    attributes  jsonb CHECK (jsonb_typeof(attributes) = 'object'), -- that users must have; NULL if none
    locale      text        NOT NULL CHECK (length(locale) <= 100), -- of the users, or the beginning of it; '' for any
    zones       text[]      NOT NULL, -- of the users; empty for any
    listed      boolean     NOT NULL, -- whether the users are those of broadcast_users
    newcomers   boolean     NOT NULL, -- whether users who are created later are included
    state       text        NOT NULL CHECK (state IN ('collecting', 'storing', 'stored', 'stopped', 'ended')),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,          -- when all events had ended; NULL before
    look_at     timestamptz,          -- when there is something to do; NULL: never
    requeue_at  timestamptz,          -- after a resume, when events that a stop has cancelled are to be requeued; NULL: none is left
    requeued    uuid,                 -- the last of these events that was looked at; NULL at the beginning
    missed      uuid,                 -- the position before the first one whose user was locked; NULL: none was
    cancel_at   timestamptz,          -- after a stop, available_at and event_id of the last pending event that was looked at; NULL at the beginning
    cancel_id   uuid,
    counted     uuid,                 -- when nothing is pending any more, the last ended event that was counted; NULL at the beginning
    lease       uuid,                 -- of the program that does it; NULL if none
    lease_until timestamptz,
    CONSTRAINT broadcasts_instants_check CHECK (least(instant, created_at, ended_at, look_at, requeue_at, cancel_at, lease_until) >= '0001-01-01 00:00:00+00'
        AND greatest(instant, created_at, ended_at, look_at, requeue_at, cancel_at, lease_until) < '10000-01-01 00:00:00+00'
        AND coalesce(wall >= '0001-01-01 00:00:00' AND wall < '10000-01-01 00:00:00', true))
);

-- One row per broadcast and zone of users: when it is due there, how far it is, and counts of users.
CREATE TABLE :"schema".broadcast_zones (
    broadcast text COLLATE "C" NOT NULL REFERENCES :"schema".broadcasts (name),
    zone      text COLLATE "C" NOT NULL CHECK (length(zone) <= 100),
    wall      timestamp,            -- what clocks show there then; NULL if the zone is left out
    due       timestamptz,          -- the instant, by the zone rules when the row was stored; NULL if the zone is left out
    late      boolean     NOT NULL, -- whether the time had passed, and the events are due at once
    reads     integer     NOT NULL DEFAULT 0 CHECK (reads BETWEEN 0 AND 1000), -- how often the zone was read to the end
    next_at   timestamptz DEFAULT clock_timestamp(), -- when it is read again; NULL: never
    position  uuid,                 -- the last user who was read; NULL at the beginning
    users_read bigint     NOT NULL DEFAULT 0,
    stored    bigint      NOT NULL DEFAULT 0,
    opted_out bigint      NOT NULL DEFAULT 0, -- this and the next are of the last reading that came to the end, or of the first one
    refused   bigint      NOT NULL DEFAULT 0,
    now_opted_out bigint  NOT NULL DEFAULT 0, -- this and the next are of the present reading
    now_refused bigint    NOT NULL DEFAULT 0,
    locked    bigint      NOT NULL DEFAULT 0, -- of now_refused, those whom another transaction had locked
    left_out  bigint      NOT NULL DEFAULT 0,
    requeued  bigint      NOT NULL DEFAULT 0, -- cancelled events that were requeued after a resume
    delivered bigint,               -- ended events by status, counted when nothing is pending any more; NULL before
    failed    bigint,
    cancelled bigint,
    PRIMARY KEY (broadcast, zone),
    CONSTRAINT broadcast_zones_instants_check CHECK (coalesce(least(due, next_at) >= '0001-01-01 00:00:00+00' AND greatest(due, next_at) < '10000-01-01 00:00:00+00', true)
        AND coalesce(wall >= '0001-01-01 00:00:00' AND wall < '10000-01-01 00:00:00', true))
);

-- The users of broadcasts whose audience is a list.
CREATE TABLE :"schema".broadcast_users (
    user_id   uuid NOT NULL, -- no foreign key: see forget_user
    broadcast text COLLATE "C" NOT NULL REFERENCES :"schema".broadcasts (name),
    zone      text COLLATE "C" NOT NULL, -- the zone of the user, which a trigger changes with the user
    PRIMARY KEY (user_id, broadcast)
);

-- Finds the users of a zone, in the order of their ids.
CREATE INDEX broadcast_users_zone ON :"schema".broadcast_users (broadcast, zone, user_id);

-- Ended events of broadcasts whose rows of history are gone: they were pruned, or their users were deleted. They still count. A row is stored in the
-- transaction that deletes the event, with its id, so a count in parts sees each event once. It is of the broadcast that was created then.
CREATE TABLE :"schema".broadcast_removed (
    broadcast text COLLATE "C" NOT NULL, -- no foreign key: a deletion of a user waits for no broadcast
    created_at timestamptz NOT NULL,     -- that of the broadcast
    id        uuid        NOT NULL,      -- of the event
    zone      text COLLATE "C" NOT NULL CHECK (length(zone) <= 100), -- in which the event ended
    status    text        NOT NULL CHECK (status IN ('COMPLETED', 'FAILED', 'CANCELLED')),
    PRIMARY KEY (broadcast, id),
    CONSTRAINT broadcast_removed_instants_check CHECK (created_at >= '0001-01-01 00:00:00+00' AND created_at < '10000-01-01 00:00:00+00')
);

-- What was done to broadcasts, and by whom.
CREATE TABLE :"schema".broadcast_steps (
    id        bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    broadcast text COLLATE "C" NOT NULL REFERENCES :"schema".broadcasts (name),
    action    text        NOT NULL CHECK (action IN ('create', 'complete', 'stop', 'resume')),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    principal text        NOT NULL DEFAULT left(coalesce(nullif(current_setting('almanac.principal', true), ''), session_user::text), 200),
    reason    text        NOT NULL CHECK (octet_length(reason) <= 1010)
);

CREATE INDEX broadcast_steps_broadcast ON :"schema".broadcast_steps (broadcast);

-- The settings that all programs must have with the same value. A row has the value of the program that started last.
CREATE TABLE :"schema".settings (
    name    text COLLATE "C" PRIMARY KEY CHECK (octet_length(name) <= 50), -- 'quiet hours', 'quarantine', or 'handler BIRTHDAY': when programs with this handler ran
    value   text        NOT NULL CHECK (octet_length(value) <= 200), -- such as 'outside Mo-Su 08:00-22:00'; empty for a program without the setting
    program text        NOT NULL CHECK (octet_length(program) <= 250), -- such as 'birthdayd v0.1.0'; empty if unknown
    since   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT settings_since_check CHECK (since >= '0001-01-01 00:00:00+00' AND since < '10000-01-01 00:00:00+00')
);

-- The audit trail: the steps of events, while the trail is enabled. Triggers write a row in the transaction of the step, whichever program
-- makes the step, so no role needs the right to write here. Enabling the trail creates the triggers, so a disabled trail costs nothing.
CREATE TABLE :"schema".audit (
    id         bigint       PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at         timestamptz  NOT NULL DEFAULT clock_timestamp(),
    -- created, rescheduled, removed, claimed, returned (before it began), released, completed, failed, cancelled; of a user:
    -- opt_outs_changed
    kind       text NOT NULL,
    event_id   uuid,                  -- NULL for a step of a user, and so is event_type
    user_id    uuid         NOT NULL,
    event_type text COLLATE "C",
    version    integer      NOT NULL, -- the version of the event or the user after the step
    detail     text,                  -- why the event failed, was released or was cancelled; or what the user refuses now, as JSON
    actor      text NOT NULL DEFAULT left(session_user::text || ' ' || current_setting('application_name'), 200),
    principal  text DEFAULT left(nullif(current_setting('almanac.principal', true), ''), 200) -- who asked for the step
);

CREATE INDEX audit_event ON :"schema".audit (event_id);
CREATE INDEX audit_user ON :"schema".audit (user_id);

-- Domain events for other services, while the outbox is enabled. Triggers write a row in the transaction of the change, whichever
-- program makes the change. Enabling the outbox creates the triggers, so a disabled outbox costs nothing.
CREATE TABLE :"schema".outbox (
    -- A transaction locks the user or series that it changes until it commits, so a later change of the same row has a greater number.
    -- Otherwise, numbers of different transactions are not in the order of their commits.
    sequence       bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    id             uuid        NOT NULL DEFAULT gen_random_uuid(), -- unlike a number, never used again after a failover that lost commits
    transaction_id xid8        NOT NULL DEFAULT pg_current_xact_id(),
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- user_created, user_timezone_changed, user_birthday_changed, user_deleted, event_created, event_completed, event_failed,
    -- event_cancelled
    kind           text NOT NULL,
    user_id        uuid        NOT NULL,
    event_id       uuid,                 -- NULL for a change of a user, and so is event_type
    event_type     text COLLATE "C",
    version        integer     NOT NULL, -- the version of the user or the event after the change
    old_timezone   text,                 -- of user_timezone_changed, and NULL otherwise
    new_timezone   text
)
WITH (autovacuum_vacuum_scale_factor = 0.02);

-- Finds the rows of a transaction that was open when a consumer read.
CREATE INDEX outbox_transaction ON :"schema".outbox (transaction_id, sequence);

CREATE INDEX outbox_user ON :"schema".outbox (user_id);

-- The position of each consumer of the outbox. The consumer has read all rows in the snapshot seen. While last is not zero, it has also
-- read the rows numbered up to last that are in the snapshot reading and not in seen. Transaction ids mean nothing on another server,
-- such as one that a dump was restored on. There a consumer has read nothing.
CREATE TABLE :"schema".outbox_consumers (
    name     text COLLATE "C" PRIMARY KEY CHECK (length(name) <= 100),
    seen     pg_snapshot  NOT NULL,
    low      bigint       NOT NULL, -- the least number of transactions whose ids are past the end of seen
    reading  pg_snapshot  NOT NULL,
    next_low bigint       NOT NULL, -- the same for reading
    last     bigint       NOT NULL,
    moved_at timestamptz  NOT NULL DEFAULT clock_timestamp(),
    server   bigint       NOT NULL DEFAULT (pg_control_system()).system_identifier, -- to which the transaction ids belong
    CONSTRAINT outbox_consumers_moved_at_check CHECK (moved_at >= '0001-01-01 00:00:00+00' AND moved_at < '10000-01-01 00:00:00+00')
)
WITH (fillfactor = 50);

-- All events, open and ended, one row per event: a view for each of the three parts, with the same columns, and a view of all parts.
-- BETWEEN instead of "=": with a second equality the planner would expect that hardly any row meets both.
CREATE VIEW :"schema".pending_events AS
SELECT q.event_id AS id, s.user_id, q.event_type, s.occurrence_key, 'PENDING'::text AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version, q.available_at,
    NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::text AS failure_reason, s.last_error, s.retry_count,
    s.claim_count, s.crash_count, s.version, s.created_at, s.updated_at, s.origin_event, q.delayed_from, s.name AS series_name,
    s.origin, s.follows_user, s.payload_made, s.forced, s.key_instant, s.key_unit, s.nominal_local, s.ready_at, q.lane, q.consulted,
    (s.lane = s.event_type || '/'::text || s.occurrence_key) IS TRUE AS of_broadcast
FROM :"schema".queue q
JOIN :"schema".series s ON s.id = q.series_id AND q.event_id BETWEEN s.event_id AND s.event_id;

-- OFFSET 0 makes the planner look up each series by its id. The planner does not know how many series a lease lists, and would
-- otherwise read the whole table.
CREATE VIEW :"schema".processing_events AS
SELECT held.event_id AS id, s.user_id, s.event_type, s.occurrence_key, 'PROCESSING'::text AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version,
    NULL::timestamptz AS available_at, l.token AS lease_token, NULL::timestamptz AS executed_at, NULL::text AS failure_reason,
    s.last_error, s.retry_count, s.claim_count + 1 AS claim_count, s.crash_count, s.version + 1 AS version, s.created_at,
    l.claimed_at AS updated_at, s.origin_event, NULL::timestamptz AS delayed_from, s.name AS series_name, s.origin,
    s.follows_user, s.payload_made, s.forced, s.key_instant, s.key_unit, s.nominal_local, s.ready_at, s.lane, NULL::text AS consulted,
    (s.lane = s.event_type || '/'::text || s.occurrence_key) IS TRUE AS of_broadcast
FROM :"schema".leases l
CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
CROSS JOIN LATERAL (
    SELECT x.*
    FROM :"schema".series x
    WHERE x.id = held.series_id AND x.event_id = held.event_id AND x.version = held.version
    OFFSET 0
) s;

CREATE VIEW :"schema".ended_events AS
SELECT h.id, h.user_id, h.event_type, h.occurrence_key, h.status, h.target_timestamp_utc, h.target_timestamp_local,
    h.target_timezone, h.policies, h.idempotency_key, h.delivery_payload, h.user_version, NULL::timestamptz AS available_at,
    h.lease_token, h.executed_at, h.failure_reason, h.last_error, h.retry_count, h.claim_count, h.crash_count, h.version,
    h.created_at, h.updated_at, h.origin_event, NULL::timestamptz AS delayed_from, h.series_name, h.origin, h.follows_user,
    h.payload_made, h.forced, h.key_instant, h.key_unit, h.nominal_local, h.ready_at, h.lane, NULL::text AS consulted,
    (h.lane = h.event_type || '/'::text || h.occurrence_key) IS TRUE AS of_broadcast
FROM :"schema".history h;

CREATE VIEW :"schema".events AS
SELECT * FROM :"schema".pending_events
UNION ALL
SELECT * FROM :"schema".processing_events
UNION ALL
SELECT * FROM :"schema".ended_events;

-- Refuses forbidden changes by old programs and by hand. Statements of this release never make such changes, so the conditions of the
-- triggers are false for them. The triggers run after the change and undo it: BEFORE triggers would first lock each row needlessly.
CREATE FUNCTION :"schema".refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'row % of % may not change so',
        coalesce(pg_catalog.to_jsonb(OLD) ->> 'event_id'::text, pg_catalog.to_jsonb(OLD) ->> 'id'::text,
            pg_catalog.to_jsonb(NEW) ->> 'event_id'::text), TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME,
              HINT = 'What has ended never changes, versions and counters rise step by step, and an event keeps its identity and, once claimed, its target.';
END
$$;

CREATE TRIGGER history_guard AFTER UPDATE ON :"schema".history FOR EACH ROW EXECUTE FUNCTION :"schema".refuse_change();
CREATE TRIGGER queue_guard AFTER UPDATE ON :"schema".queue FOR EACH ROW EXECUTE FUNCTION :"schema".refuse_change();

-- Adds visits for new events of lanes with names: one for each lane, when its first new event is available, and one with a turn for the
-- lane that its lane is in. A visit is left out if there is one that is not later than that event. It must be more than a minute ahead: until
-- then no claim deletes it, and the transaction has ended. A host's transaction may last longer: each sweep adds visits that are missing.
-- Its plan may be made when there are few visits, and stays when there are many.
CREATE FUNCTION :"schema".visit_lane() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = :"schema", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    soon CONSTANT timestamptz := clock_timestamp() + interval '1 minute';
BEGIN
    -- Another trigger of the queue could have a table of its own called added.
    IF TG_RELID <> 'queue'::regclass::oid OR TG_OP <> 'INSERT' OR TG_NAME <> 'queue_visits' THEN
        RAISE insufficient_privilege USING MESSAGE = 'visit_lane is for the trigger of the queue alone';
    END IF;
    INSERT INTO visits (scope, event_type, at, lane, since, turn)
    SELECT n.scope, n.event_type, n.at, n.lane, n.at, n.turn
    FROM (
        SELECT CASE WHEN strpos(a.lane, '/') > 0 THEN split_part(a.lane, '/', 1) ELSE '' END AS scope, a.event_type,
            min(a.available_at) AS at, a.lane, NULL::float8 AS turn
        FROM added a
        WHERE a.lane <> ''
        GROUP BY a.lane, a.event_type
        UNION ALL
        SELECT '', a.event_type, min(a.available_at), split_part(a.lane, '/', 1), -1
        FROM added a
        WHERE strpos(a.lane, '/') > 1
        GROUP BY split_part(a.lane, '/', 1), a.event_type
    ) n
    WHERE (
        SELECT v.at
        FROM visits v
        WHERE v.lane = n.lane AND v.event_type = n.event_type AND v.at > soon
            AND v.at <= n.at AND v.since <= n.at AND (n.turn IS NULL OR v.turn IS NOT NULL)
        ORDER BY v.at -- as the index has them
        LIMIT 1
    ) IS NULL;
    RETURN NULL;
END
$$;

CREATE TRIGGER queue_visits AFTER INSERT ON :"schema".queue REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION :"schema".visit_lane();

-- The room of a lane for a claim of up to most events: the tokens of its rate, and its places, or those that its breaker allows, without the
-- events that are in flight. Locks the state of a lane with limits. If another transaction has locked it, or has replaced it meanwhile, place
-- is NULL, and nothing may be claimed from the lane.
CREATE FUNCTION :"schema".lane_room(
    of_lane text, read_at timestamptz, emptied timestamptz, most bigint,
    OUT place tid, OUT is_limited boolean, OUT is_failing boolean, OUT room bigint, OUT shut_until timestamptz, OUT rate float8, OUT burst float8,
    OUT places integer, OUT stepped_at timestamptz, OUT full_at timestamptz, OUT of_day integer, OUT series_ids bigint[], OUT event_ids uuid[], OUT versions integer[]
) LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    l lanes;
    s lane_states;
    today CONSTANT date := timezone('UTC', read_at)::date;
    refill interval;
BEGIN
    SELECT o.* INTO l FROM lanes o WHERE o.name = of_lane;
    SELECT n.* INTO s FROM lane_states n WHERE n.lane = of_lane ORDER BY n.step DESC LIMIT 1;
    is_limited := l.rate IS NOT NULL OR l.places IS NOT NULL OR l.daily IS NOT NULL OR s.allowed IS NOT NULL;
    is_failing := s.allowed IS NOT NULL OR s.answer_ids IS NOT NULL;
    room := most;
    IF is_limited THEN
        SELECT n.ctid INTO place FROM lane_states n WHERE n.lane = of_lane AND n.step = s.step FOR UPDATE SKIP LOCKED;
        IF place IS NULL THEN
            RETURN;
        END IF;
        SELECT o.* INTO l FROM lanes o WHERE o.name = of_lane; -- who has changed limits meanwhile has replaced the state before it was locked
        rate := l.rate;
        burst := l.burst;
        places := least(l.places, s.allowed);
        of_day := CASE s.day WHEN today THEN s.of_day WHEN today + 1 THEN s.of_eve ELSE 0 END; -- a clock may be set
        refill := coalesce(burst / rate, 0) * interval '1 second';
        -- Another claim that began later may have come first. Only a state of the future shows that the clock was set back. If it was adjusted
        -- by less than a second, the state stays: it has no more tokens for that, and the clock is soon there again.
        stepped_at := CASE WHEN s.at <= clock_timestamp() + interval '1 second' THEN greatest(s.at, read_at) ELSE read_at END;
        full_at := CASE WHEN s.at > stepped_at THEN read_at + refill
            ELSE greatest(s.full_at, CASE WHEN emptied >= s.at THEN emptied + refill END) END;
        SELECT coalesce(array_agg(h.id), '{}'), coalesce(array_agg(h.event_id), '{}'), coalesce(array_agg(h.version), '{}')
        INTO series_ids, event_ids, versions
        FROM unnest(s.held_series, s.held_ids, s.held_versions) AS h (id, event_id, version)
        CROSS JOIN LATERAL (
            SELECT FROM series x WHERE x.id = h.id AND x.event_id = h.event_id AND x.version = h.version OFFSET 0
        ) x;
        room := greatest(0, least(most, l.daily - of_day, places - cardinality(event_ids),
            floor(burst - rate * date_part('epoch', greatest(full_at, read_at) - read_at))::bigint));
    END IF;
    shut_until := greatest(
        CASE WHEN l.paused_since IS NOT NULL AND coalesce(l.paused_until > now(), true)
            THEN coalesce(l.paused_until, read_at + interval '1 minute') END, -- visit_again.sql makes the visit due
        CASE WHEN s.retry_at > read_at AND s.retry_at <= read_at + interval '61 minutes' THEN s.retry_at END, -- or the clock was set back
        CASE WHEN l.daily <= of_day THEN timezone('UTC', date_trunc('day', timezone('UTC', read_at)) + interval '1 day') END);
    IF shut_until IS NOT NULL THEN
        room := 0;
    END IF;
END
$$;

-- Counts events that were claimed in the state of their lane, which lane_room has locked. The events are in the order in which they were
-- taken. Tokens take whole microseconds, rounded up, or they would add up to more than the rate. Events that are not due yet take tokens
-- that are there now. The bucket is then as if each had taken its token at its instant: if n tokens are there, n events at any instants
-- from now on conform.
-- Returns when the lane has room for the next claim: a place, and the tokens that come in a tenth of a second, so that a claim takes several
-- events. Half of the burst is enough, and at least one token: a bucket that is full loses those that come before the claim.
CREATE FUNCTION :"schema".step_lane(
    of_lane text, read_at timestamptz, emptied timestamptz, most bigint, began timestamptz, reached timestamptz,
    new_series bigint[], new_ids uuid[], new_versions integer[], new_due timestamptz[], OUT ready_at timestamptz, OUT has_places boolean
) LANGUAGE plpgsql SET search_path = :"schema", pg_temp AS $$
DECLARE
    l record;
    taken CONSTANT integer := cardinality(new_ids);
    today CONSTANT date := timezone('UTC', read_at)::date;
    slot_now CONSTANT integer := floor(date_part('epoch', read_at) / 300)::integer;
    filled timestamptz;
BEGIN
    SELECT r.* INTO l FROM lane_room(of_lane, read_at, emptied, most) r;
    ready_at := coalesce(l.shut_until, read_at);
    has_places := false;
    IF l.place IS NULL THEN
        RETURN;
    END IF;
    filled := greatest(l.full_at, read_at);
    IF l.rate IS NOT NULL THEN
        filled := greatest(filled, (
            SELECT max(d.at - floor((d.nth - 1) / l.rate * 1000000) * interval '1 microsecond')
            FROM unnest(new_due) WITH ORDINALITY AS d (at, nth)
        )) + ceil(taken / l.rate * 1000000) * interval '1 microsecond';
    END IF;
    -- A state of the future is replaced, too, or the bucket would stay empty until the clock is there again.
    IF taken > 0 OR began = read_at OR (SELECT s.at > l.stepped_at FROM lane_states s WHERE s.ctid = l.place) THEN
        has_places := l.places IS NOT NULL;
        UPDATE lane_states s
        SET step = s.step + 1, at = l.stepped_at, full_at = filled, day = CASE s.day WHEN today + 1 THEN s.day ELSE today END,
            of_day = CASE s.day WHEN today + 1 THEN s.of_day ELSE l.of_day + taken END,
            of_eve = CASE s.day WHEN today + 1 THEN l.of_day + taken WHEN today THEN s.of_eve WHEN today - 1 THEN s.of_day ELSE 0 END,
            slot = slot_now, started = (
                SELECT ARRAY[coalesce(h.n[1], 0) + taken] || h.n[2:12]
                FROM (SELECT (array_fill(0, ARRAY[passed.slots]) || s.started)[1:12] AS n
                    FROM (SELECT CASE WHEN slot_now - s.slot BETWEEN 0 AND 11 THEN slot_now - s.slot ELSE 12 END AS slots) passed) h
            ), -- a clock may be set
            searched_at = coalesce(began, s.searched_at), since = CASE WHEN began IS NULL THEN s.since ELSE least(reached, now()) END,
            held_series = CASE WHEN has_places THEN l.series_ids || new_series ELSE '{}' END,
            held_ids = CASE WHEN has_places THEN l.event_ids || new_ids ELSE '{}' END,
            held_versions = CASE WHEN has_places THEN l.versions || new_versions ELSE '{}' END
        WHERE s.ctid = l.place;
    END IF;
    IF l.shut_until IS NULL AND l.room <= taken THEN
        ready_at := greatest(read_at, filled - (l.burst - greatest(1, least(l.burst / 2, l.rate / 10))) / l.rate * interval '1 second',
            CASE WHEN l.places <= cardinality(l.event_ids) + taken THEN read_at + interval '500 milliseconds' END);
    END IF;
END
$$;

-- Claims events of lanes that have limits or names, as many as the lanes have room for, and leases them as one batch. It takes events that
-- are due, and events that will be soon and were never claimed. It works in steps: one statement for all of them would take longer to
-- begin than to run.
--   asked: the types · most: the most events · term: of the lease · ahead: how soon
--   earliest, latest: between which this process expects the clock when it sends the claim, by its monotonic clock; NULL if unknown
--   known: emptied_at at the last such claim of this process; NULL if unknown
--   certain: whether this process knows that the clock was set since then
--   looks: the most lanes to look at
--   visits_from: no visit that is due before it is left; NULL if unknown
-- Turns.
--   A lane whose visit is due has its turn in the order of the visits. So has a type with limits of which an event is near.
--   A turn takes a share of the claim. Then the lane goes to the end of the line.
--   Up to ten lanes without limits, and without a visit for lanes in them, have their turns together.
--   A lane that is in another one has a turn only with that one.
-- Shares of the lanes in a lane.
--   The next event is that of the lane with the least pass. The pass is how much a lane has had, divided by its weight.
--   A lane that has waited begins with the least pass of the others. If there are none, it begins with the milliseconds since 1970, so that
--   the passes of a lane never fall.
-- Locks.
--   No lock is waited for: what another claim has locked is passed over.
--   Locks end with the statement of the process, even if the process reads nothing.
-- The clock.
--   It was set back if it is more than a second before earliest, or before a time that another claim has read.
--   If it is more than a second after latest, it was set forward, or the statement was long on its way, as in the queue of a pooler. Then
--   nothing is claimed, and is_late is true. The time of the answer tells the process which of the two it was.
--   After the clock was set, all buckets count as empty, unless another process has seen it since the last claim of this one. The same
--   holds after the server has started, because a standby may have taken over without the last steps.
--   Visits of lanes with due events become due, because their times may be ahead of the clock.
--   Breakers count from now on, and admit at once what they allow: how long they have waited is unknown. When they opened moves with the
--   clock.
-- The index.
--   Entries left of since, turn and visits_from are dead, and stay as long as an old transaction is open.
--   Once a second, one claim searches a type and the visits from the beginning. It finds events that became available late, such as a
--   successor that is overdue when it is stored, and visits that another process has added before visits_from.
-- Visits.
--   Those that were followed are deleted. A lane of which events are left gets a new one: when the next event is available; when there is
--   room again; now, if the claim has no room for more; or in five seconds, if another transaction has locked the event.
-- Rows of the queue that do not match their series are handled as in claim.sql.
-- Returns
--   removed: rows of the queue · claimed: events · has_places: whether any of them has a place · has_breaker: whether a lane has one
--   read_at: the clock · left_from: the next visits_from, a fifth of a second ago if all visits that were due were followed
--   emptied_at: the next known · is_late
CREATE FUNCTION :"schema".claim_lanes(
    new_token uuid, owner_name text, program_name text, zone_release text, asked text[], most bigint, term interval, ahead interval,
    earliest timestamptz, latest timestamptz, known timestamptz, certain boolean, looks bigint, visits_from timestamptz,
    OUT removed bigint, OUT claimed bigint, OUT has_places boolean, OUT has_breaker boolean, OUT read_at timestamptz, OUT left_from timestamptz,
    OUT emptied_at timestamptz, OUT is_late boolean
) LANGUAGE plpgsql SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    soon CONSTANT timestamptz := now() + ahead;
    visible CONSTANT timestamptz := now() + least(ahead, interval '30 seconds'); -- a writer may rely on a visit that is a minute ahead
    mark record; -- the row of lane_clock
    emptied timestamptz;
    was_set boolean;
    open_types text[];
    limited_types text[];
    looked bigint := 0;
    left_over bigint := most;
    next_lane record;
    top record;
    inner_lane record;
    step record;
    ready timestamptz; -- when the lane has room again
    here bigint; -- how many events this turn may take
    turn_lanes text[]; -- that have this turn
    seen visits[];
    seen_at tid[];
    seen_lanes bigint;
    inner_since timestamptz;
    inner_turn float8;
    inner_types text[]; -- of which events are in lanes in this one
    inner_names text[];
    inner_weights integer[];
    inner_at timestamptz[];
    inner_limited boolean[];
    inner_rooms bigint[];
    inner_ready timestamptz[];
    more visits[];
    more_at tid[];
    type_itself visits[];
    range_lanes text[];
    range_types text[];
    range_since timestamptz[];
    range_passes float8[];
    range_weights integer[];
    range_rooms bigint[];
    range_shares bigint[];
    took_lanes text[];
    took_types text[];
    took_at tid[];
    took_series bigint[];
    took_ids uuid[];
    took_versions integer[];
    took_due timestamptz[];
    took_right boolean[];
    leased_series bigint[] := '{}';
    leased_ids uuid[] := '{}';
    leased_versions integer[] := '{}';
BEGIN
    removed := 0;
    claimed := 0;
    has_places := false;
    has_breaker := false;
    read_at := greatest(clock_timestamp(), now());
    left_from := read_at - interval '200 milliseconds';

    -- The clock.
    SELECT k.emptied_at, k.seen_at, k.server <> pg_postmaster_start_time() AS is_new, k.seen_at > clock_timestamp() + interval '1 second' AS is_ahead,
        k.emptied_at = coalesce(known, '-infinity') AS is_known
    INTO mark
    FROM lane_clock k;
    emptied := mark.emptied_at;
    was_set := mark.is_ahead OR certain OR coalesce(read_at < earliest - interval '1 second', false);
    is_late := coalesce(NOT (was_set OR mark.is_new) AND mark.is_known AND read_at > latest + interval '1 second', false);
    IF is_late THEN
        RETURN;
    END IF;
    IF mark.is_new OR mark.is_ahead OR was_set AND mark.is_known THEN
        emptied := read_at;
    END IF;
    IF emptied <> mark.emptied_at OR read_at > mark.seen_at + interval '1 minute' THEN
        UPDATE lane_clock k
        SET emptied_at = emptied, server = pg_postmaster_start_time(), seen_at = read_at
        WHERE k.ctid = ANY (ARRAY (SELECT o.ctid FROM lane_clock o FOR UPDATE SKIP LOCKED));
    END IF;
    emptied_at := nullif(emptied, '-infinity');
    IF was_set AND emptied = read_at THEN
        UPDATE lane_states s
        SET step = s.step + 1, retry_at = read_at, opened_at = least(read_at, s.opened_at + CASE
            WHEN read_at < earliest - interval '1 second' THEN read_at - earliest
            WHEN read_at > latest + interval '1 second' THEN read_at - latest
            WHEN mark.is_ahead THEN read_at - mark.seen_at ELSE interval '0' END)
        WHERE s.ctid = ANY (ARRAY (SELECT o.ctid FROM lane_states o WHERE o.allowed IS NOT NULL FOR UPDATE SKIP LOCKED));
    END IF;
    IF was_set OR mark.is_new THEN
        UPDATE visits v
        SET at = read_at, since = least(v.since, read_at)
        WHERE v.ctid = ANY (ARRAY (
            SELECT o.ctid
            FROM visits o
            WHERE o.at > read_at AND (o.since <= read_at OR o.scope = '' AND EXISTS (
                SELECT FROM visits i WHERE i.scope = o.lane AND i.event_type = o.event_type AND i.at > read_at AND i.since <= read_at
            ))
            FOR UPDATE OF o SKIP LOCKED
        ));
    END IF;

    -- The types that are not paused, and those of them that have limits or a breaker.
    SELECT array_agg(t.name), array_agg(t.name) FILTER (WHERE l.rate IS NOT NULL OR l.places IS NOT NULL OR l.daily IS NOT NULL OR b.allowed IS NOT NULL)
    INTO open_types, limited_types
    FROM unnest(asked) AS t (name)
    LEFT JOIN lanes l ON l.name = t.name
    LEFT JOIN LATERAL (
        SELECT n.allowed FROM lane_states n WHERE n.lane = t.name ORDER BY n.step DESC LIMIT 1
    ) b ON true
    WHERE l.paused_since IS NULL OR l.paused_until <= now();

    FOR next_lane IN
        SELECT CASE WHEN t.is_plain THEN '' ELSE min(t.lane) END AS lane, array_agg(t.lane ORDER BY t.nth) AS lanes, min(t.visit_at) AS visit_at,
            max(t.began) AS began, max(t.since) AS since, greatest(least(most, 10), most / 4, 2 + 2 * most / max(t.lanes)) AS share,
            min(min(t.cut_at)) OVER () AS cut_at,
            min(min(t.visit_at)) OVER (ORDER BY min(t.nth) DESC ROWS UNBOUNDED PRECEDING) AS rest_at -- of these lanes and all later ones
        FROM (
            SELECT l.*, row_number() OVER (ORDER BY l.at, l.lane) AS nth, count(*) OVER () AS lanes,
                CASE WHEN l.is_plain THEN (row_number() OVER (PARTITION BY l.is_plain ORDER BY l.at, l.lane) + 9) / 10 END AS tenth
            FROM (
                SELECT d.lane, min(d.at) AS at, min(d.visit_at) AS visit_at, max(d.began) AS began, max(d.since) AS since, min(d.cut_at) AS cut_at,
                    bool_and(d.is_own) AND (SELECT o.name FROM lanes o WHERE o.name = d.lane) IS NULL
                    AND (SELECT n.step FROM lane_states n WHERE n.lane = d.lane ORDER BY n.step DESC LIMIT 1) IS NULL AS is_plain
                FROM (
                    SELECT o.lane, o.at, o.at AS visit_at, NULL::timestamptz AS began, NULL::timestamptz AS since, o.turn IS NULL AS is_own,
                        CASE WHEN count(*) OVER (PARTITION BY t.name) >= looks + 50 THEN max(o.at) OVER (PARTITION BY t.name) END AS cut_at
                    FROM unnest(open_types) AS t (name)
                    CROSS JOIN LATERAL (
                        SELECT v.lane, v.at, v.turn
                        FROM visits v
                        WHERE v.scope = '' AND v.event_type = t.name AND v.pass = -1 AND v.at >= coalesce(visits_from, '-infinity') AND v.at <= visible
                        ORDER BY v.at, v.lane
                        LIMIT looks + 50 -- a lane may have many, and another claim may have some
                    ) o
                    UNION ALL
                    SELECT t.name, s.at, NULL, search.began, coalesce(first.available_at, search.since), false, NULL
                    FROM unnest(limited_types) AS t (name)
                    CROSS JOIN LATERAL (
                        SELECT n.* FROM lane_states n WHERE n.lane = t.name ORDER BY n.step DESC LIMIT 1
                    ) s
                    CROSS JOIN LATERAL (
                        SELECT CASE WHEN recent.is_so THEN s.searched_at ELSE read_at END AS began,
                            CASE WHEN recent.is_so THEN s.since ELSE '-infinity' END AS since
                        FROM (SELECT s.searched_at BETWEEN read_at - interval '1 second' AND clock_timestamp() AS is_so) recent
                    ) search
                    LEFT JOIN LATERAL (
                        SELECT q.available_at
                        FROM queue q
                        WHERE q.event_type = t.name AND q.lane = '' AND q.available_at >= search.since AND q.available_at <= soon
                        ORDER BY q.available_at, q.event_id
                        LIMIT 1
                    ) first ON true
                    WHERE first.available_at IS NOT NULL OR search.began = read_at
                ) d
                GROUP BY d.lane
            ) l
        ) t
        GROUP BY t.is_plain, t.tenth, CASE WHEN NOT t.is_plain THEN t.lane END
        ORDER BY min(t.nth)
    LOOP
        left_from := least(left_from, next_lane.cut_at);
        IF left_over = 0 OR looked >= looks THEN
            left_from := least(left_from, next_lane.rest_at);
            EXIT;
        END IF;
        IF next_lane.lane <> '' THEN
            SELECT r.* INTO top FROM lane_room(next_lane.lane, read_at, emptied, most) r;
            has_breaker := has_breaker OR top.is_failing;
            turn_lanes := next_lane.lanes;
        ELSE
            SELECT NULL::tid AS place, false AS is_limited, most AS room, NULL::timestamptz AS shut_until INTO top;
            turn_lanes := next_lane.lanes[1:left_over]; -- so that each can have an event
        END IF;
        SELECT coalesce(array_agg(v.visit), '{}'), coalesce(array_agg(v.place), '{}'), count(DISTINCT (v.visit).lane), min((v.visit).since),
            min(nullif((v.visit).turn, -1)),
            CASE WHEN top.is_limited OR count((v.visit).turn) > 0 THEN coalesce(array_agg(DISTINCT (v.visit).event_type), '{}') ELSE '{}' END
        INTO seen, seen_at, seen_lanes, inner_since, inner_turn, inner_types
        FROM (
            SELECT o.*
            FROM unnest(turn_lanes) AS t (lane)
            CROSS JOIN LATERAL (
                SELECT v AS visit, v.ctid AS place
                FROM visits v
                -- Without an index by scope or type, which would read the visits of all lanes.
                WHERE (v.scope = '' AND v.event_type = ANY (open_types)) IS TRUE
                    AND v.lane = t.lane AND v.at >= coalesce(visits_from, '-infinity') AND v.at <= visible
                    AND (top.place IS NOT NULL OR NOT top.is_limited) AND (v.turn IS NULL OR next_lane.lane <> '')
                LIMIT 1000
                FOR UPDATE SKIP LOCKED
            ) o
        ) v;
        IF seen_lanes < cardinality(next_lane.lanes) OR cardinality(seen) >= 1000 THEN -- another claim has a lane, or a visit is left
            left_from := least(left_from, next_lane.visit_at);
        END IF;
        CONTINUE WHEN top.is_limited AND top.place IS NULL OR seen = '{}' AND next_lane.began IS NULL;
        here := least(top.room, left_over, next_lane.share * greatest(seen_lanes, 1));
        looked := looked + seen_lanes;
        IF visits_from IS NULL THEN
            inner_since := '-infinity';
            inner_turn := NULL;
        ELSIF inner_turn IS NULL AND inner_types <> '{}' THEN -- this visit may be a new one, and another one may be later
            SELECT min(nullif(o.turn, -1)) INTO inner_turn
            FROM visits o
            WHERE o.scope = '' AND o.lane = next_lane.lane AND o.event_type = ANY (inner_types) AND o.at > visible;
        END IF;

        -- The lanes in this one that have a turn: those with the least passes, and those that have waited.
        inner_names := '{}';
        IF inner_types <> '{}' AND here > 0 THEN
            SELECT coalesce(array_agg(w.lane), '{}'), array_agg(coalesce(l.weight, 1)),
                array_agg(l.name IS NOT NULL OR (SELECT n.step FROM lane_states n WHERE n.lane = w.lane ORDER BY n.step DESC LIMIT 1) IS NOT NULL),
                coalesce(min(w.least_pass), greatest(inner_turn, floor(date_part('epoch', read_at) * 1000))), array_agg(w.at), array_agg(here), array_agg(read_at)
            INTO inner_names, inner_weights, inner_limited, inner_turn, inner_at, inner_rooms, inner_ready
            FROM (
                SELECT v.lane, min(v.at) AS at, min(min(v.pass)) OVER () AS least_pass
                FROM unnest(inner_types) AS t (name)
                CROSS JOIN LATERAL (
                    (
                        SELECT v.lane, v.pass, v.at
                        FROM visits v
                        WHERE v.scope = next_lane.lane AND v.event_type = t.name AND v.pass >= coalesce(inner_turn, 0) AND v.at <= visible
                        ORDER BY v.pass
                        LIMIT 3 * here + 50 -- a lane may have many
                    )
                    UNION ALL
                    (
                        SELECT v.lane, NULL, v.at
                        FROM visits v
                        WHERE v.scope = next_lane.lane AND v.event_type = t.name AND v.pass = -1 AND v.at >= inner_since AND v.at <= visible
                        ORDER BY v.at
                        LIMIT 3 * here + 50 -- a lane may have many
                    )
                ) v
                GROUP BY v.lane
                ORDER BY coalesce(min(v.pass), min(min(v.pass)) OVER (), 0), min(v.at), v.lane
                LIMIT least(here, looks)
            ) w
            LEFT JOIN lanes l ON l.name = w.lane;
        END IF;
        FOR i IN 1 .. cardinality(inner_names) LOOP
            inner_limited[i] := inner_limited[i] AND inner_names[i] <> next_lane.lane;
            IF inner_limited[i] THEN
                SELECT r.* INTO inner_lane FROM lane_room(inner_names[i], read_at, emptied, most) r;
                inner_limited[i] := inner_lane.is_limited;
                inner_ready[i] := coalesce(inner_lane.shut_until, read_at);
                inner_rooms[i] := CASE WHEN inner_lane.place IS NOT NULL OR NOT inner_lane.is_limited THEN least(here, inner_lane.room) END;
            END IF;
        END LOOP;
        IF inner_names <> '{}' THEN
            SELECT coalesce(array_agg(v.visit), '{}'), coalesce(array_agg(v.place), '{}')
            INTO more, more_at
            FROM (
                SELECT o AS visit, o.ctid AS place
                FROM unnest(inner_names, inner_at, inner_rooms) AS i (name, at, room)
                JOIN visits o ON (o.scope = next_lane.lane AND o.event_type = ANY (inner_types) AND o.at <= visible) IS TRUE
                    AND o.lane = i.name AND o.at >= i.at
                WHERE i.room IS NOT NULL
                LIMIT 10000
                FOR UPDATE OF o SKIP LOCKED
            ) v;
            seen := seen || more;
            seen_at := seen_at || more_at;
        END IF;

        -- Where events of these lanes are in the queue, and how many of each may be locked.
        type_itself := '{}';
        IF next_lane.began IS NOT NULL THEN
            type_itself := ARRAY[ROW(next_lane.lane, next_lane.lane, read_at, next_lane.lane, next_lane.since, -1, NULL)::visits];
        END IF;
        SELECT array_agg(r.lane), array_agg(r.event_type), array_agg(r.since), array_agg(r.pass), array_agg(r.weight), array_agg(r.room),
            array_agg(least(r.room, 2 + 5 * here * r.weight / r.weights / 4))
        INTO range_lanes, range_types, range_since, range_passes, range_weights, range_rooms, range_shares
        FROM (
            SELECT v.lane, v.event_type, min(v.since) AS since, greatest(max(max(v.pass)) OVER (PARTITION BY v.lane), inner_turn, 0) AS pass,
                coalesce(i.weight, 1) AS weight, least(i.room, here) AS room, sum(coalesce(i.weight, 1)) OVER () AS weights
            FROM unnest(seen || type_itself) AS v
            LEFT JOIN unnest(inner_names, inner_weights, inner_rooms) AS i (name, weight, room) ON i.name = v.lane
            WHERE v.lane <> v.event_type OR v.scope <> '' -- other events of a type are claimed by claim.sql
            GROUP BY v.lane, v.event_type, i.weight, i.room
        ) r;

        -- The events, in the order of their turns.
        SELECT coalesce(array_agg(p.lane), '{}'), coalesce(array_agg(p.event_type), '{}'), coalesce(array_agg(p.place), '{}'),
            coalesce(array_agg(p.series_id), '{}'), coalesce(array_agg(p.event_id), '{}'), coalesce(array_agg(p.version), '{}'),
            coalesce(array_agg(p.available_at), '{}'), coalesce(array_agg(p.is_right), '{}')
        INTO took_lanes, took_types, took_at, took_series, took_ids, took_versions, took_due, took_right
        FROM (
            SELECT o.lane, o.event_type, o.place, o.series_id, o.event_id, o.available_at, x.version, x.is_right IS TRUE AS is_right
            FROM (
                SELECT n.*, row_number() OVER (ORDER BY n.pass + (n.nth - 1) / n.weight::float8, n.available_at, n.event_id) AS rank
                FROM (
                    SELECT r.lane, r.pass, r.weight, r.room, q.*,
                        row_number() OVER (PARTITION BY r.lane ORDER BY q.available_at, q.event_id) AS nth
                    FROM unnest(range_lanes, range_types, range_since, range_passes, range_weights, range_rooms, range_shares)
                        AS r (lane, event_type, since, pass, weight, room, share)
                    CROSS JOIN LATERAL (
                        SELECT q.ctid AS place, q.series_id, q.event_id, q.event_type, q.available_at
                        FROM queue q
                        WHERE q.event_type = r.event_type AND q.lane = CASE WHEN r.event_type = r.lane THEN '' ELSE r.lane END
                            AND q.available_at >= r.since AND q.available_at <= soon
                            AND (q.available_at <= now() OR q.consulted IS NULL AND (SELECT s.claim_count FROM series s WHERE s.id = q.series_id) < 1)
                        ORDER BY q.available_at, q.event_id
                        LIMIT r.share
                        FOR UPDATE SKIP LOCKED
                    ) q
                ) n
                WHERE n.nth <= n.room
            ) o
            LEFT JOIN LATERAL (
                SELECT s.version, s.event_id = o.event_id AND s.event_type = o.event_type
                    AND greatest(s.target_timestamp_utc, s.ready_at) <= soon AS is_right
                FROM series s
                WHERE s.id = o.series_id
                OFFSET 0
            ) x ON true
            WHERE o.rank <= here
            ORDER BY o.rank
        ) p;
        IF took_ids <> '{}' THEN
            DELETE FROM queue q WHERE q.ctid = ANY (took_at);
        END IF;
        removed := removed + cardinality(took_ids);
        left_over := left_over - cardinality(took_ids);
        IF true = ALL (took_right) THEN
            leased_series := leased_series || took_series;
            leased_ids := leased_ids || took_ids;
            leased_versions := leased_versions || took_versions;
        ELSE
            SELECT leased_series || coalesce(array_agg(t.id), '{}'), leased_ids || coalesce(array_agg(t.event_id), '{}'),
                leased_versions || coalesce(array_agg(t.version), '{}')
            INTO leased_series, leased_ids, leased_versions
            FROM unnest(took_series, took_ids, took_versions, took_right) AS t (id, event_id, version, is_right)
            WHERE t.is_right;
            INSERT INTO queue (available_at, event_id, series_id, event_type, delayed_from, retry_count, lane)
            SELECT greatest(t.available_at, s.target_timestamp_utc, s.ready_at), s.event_id, s.id, s.event_type,
                CASE WHEN greatest(t.available_at, s.ready_at) > s.target_timestamp_utc THEN s.target_timestamp_utc END, nullif(s.retry_count, 0), s.lane
            FROM unnest(took_series, took_ids, took_types, took_due, took_right) AS t (id, event_id, event_type, available_at, is_right)
            JOIN series s ON s.id = t.id AND s.event_id = t.event_id
            WHERE NOT t.is_right AND (s.event_type <> t.event_type OR greatest(s.target_timestamp_utc, s.ready_at) > soon) AND NOT EXISTS (
                SELECT FROM leases l
                CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
                WHERE held.series_id = s.id AND held.event_id = s.event_id AND held.version = s.version
            );
        END IF;

        -- The states of the lanes, and when each has room again.
        ready := coalesce(top.shut_until, read_at);
        IF top.place IS NOT NULL THEN
            SELECT r.* INTO step
            FROM step_lane(next_lane.lane, read_at, emptied, most, next_lane.began,
                CASE WHEN next_lane.began IS NOT NULL THEN coalesce((
                    SELECT max(t.available_at) FROM unnest(took_lanes, took_types, took_due) AS t (lane, event_type, available_at)
                    WHERE t.lane = next_lane.lane AND t.event_type = next_lane.lane
                ), nullif(next_lane.since, '-infinity')) END,
                took_series, took_ids, took_versions, took_due) r;
            ready := step.ready_at;
            has_places := has_places OR step.has_places;
        END IF;
        FOR i IN 1 .. cardinality(inner_names) LOOP
            IF inner_limited[i] AND inner_rooms[i] IS NOT NULL THEN
                SELECT r.* INTO inner_lane
                FROM (
                    SELECT coalesce(array_agg(t.id), '{}') AS series_ids, coalesce(array_agg(t.event_id), '{}') AS ids,
                        coalesce(array_agg(t.version), '{}') AS versions, coalesce(array_agg(t.available_at), '{}') AS due
                    FROM unnest(took_lanes, took_series, took_ids, took_versions, took_due) AS t (lane, id, event_id, version, available_at)
                    WHERE t.lane = inner_names[i]
                ) t
                CROSS JOIN LATERAL step_lane(inner_names[i], read_at, emptied, most, NULL, NULL, t.series_ids, t.ids, t.versions, t.due) r;
                inner_ready[i] := inner_lane.ready_at;
                has_places := has_places OR inner_lane.has_places;
            END IF;
        END LOOP;

        -- The next visits of the lanes, and that of this lane for the lanes in it.
        DELETE FROM visits v WHERE v.ctid = ANY (seen_at);
        INSERT INTO visits (scope, event_type, at, lane, since, pass)
        SELECT CASE WHEN r.lane <> next_lane.lane OR n.has_turn THEN next_lane.lane ELSE '' END, r.event_type, least(n.at, '9999-12-31'), r.lane,
            first.available_at, CASE WHEN n.has_turn THEN r.pass + of_lane.n / r.weight::float8 ELSE -1 END
        FROM (
            -- Among the lanes in this one, its own events keep their pass while there is no room: the visit with the turn waits for that.
            SELECT r.*, CASE WHEN r.lane = next_lane.lane AND inner_names <> '{}' THEN read_at ELSE coalesce(i.ready_at, ready) END AS ready_at
            FROM unnest(range_lanes, range_types, range_since, range_passes, range_weights, range_rooms, range_shares)
                AS r (lane, event_type, since, pass, weight, room, share)
            LEFT JOIN unnest(inner_names, inner_ready) AS i (name, ready_at) ON i.name = r.lane AND r.lane <> next_lane.lane
        ) r
        CROSS JOIN LATERAL (
            SELECT q.available_at
            FROM queue q
            WHERE q.event_type = r.event_type AND q.lane = CASE WHEN r.event_type = r.lane THEN '' ELSE r.lane END AND q.available_at >= r.since
            ORDER BY q.available_at, q.event_id
            LIMIT 1
        ) first
        CROSS JOIN LATERAL (
            SELECT count(*) AS n, count(*) FILTER (WHERE t.event_type = r.event_type) AS of_type
            FROM unnest(took_lanes, took_types) AS t (lane, event_type)
            WHERE t.lane = r.lane
        ) of_lane
        JOIN LATERAL (
            SELECT m.at, m.at <= read_at AND next_lane.lane <> '' AND (r.lane <> next_lane.lane OR inner_names <> '{}') AS has_turn
            FROM (
                SELECT CASE
                    WHEN first.available_at > now() THEN greatest(first.available_at, r.ready_at)
                    WHEN r.ready_at > read_at OR here = 0 OR cardinality(took_ids) >= here OR of_lane.n >= r.room OR of_lane.of_type >= r.share
                        THEN r.ready_at
                    ELSE least(read_at + interval '5 seconds', (
                        SELECT q.available_at
                        FROM queue q
                        WHERE q.event_type = r.event_type AND q.lane = CASE WHEN r.event_type = r.lane THEN '' ELSE r.lane END
                            AND q.available_at > now()
                        ORDER BY q.available_at, q.event_id
                        LIMIT 1
                    )) END AS at
                OFFSET 0
            ) m
            OFFSET 0
        ) n ON n.has_turn OR r.lane <> r.event_type
        WHERE n.at <= read_at OR (
            SELECT v.at
            FROM visits v
            WHERE v.lane = r.lane AND v.event_type = r.event_type AND v.at > read_at AND v.at <= n.at AND v.since <= first.available_at
            ORDER BY v.at
            LIMIT 1
        ) IS NULL;
        CONTINUE WHEN inner_types = '{}';
        INSERT INTO visits (scope, event_type, at, lane, since, turn)
        SELECT '', t.name, least(greatest(least(turns.at, waits.at), ready), '9999-12-31'), next_lane.lane,
            least(waits.at, read_at) - interval '200 milliseconds', coalesce(turns.pass, -1) -- another claim may add a visit now
        FROM unnest(inner_types) AS t (name)
        LEFT JOIN LATERAL (
            SELECT v.at, v.pass
            FROM visits v
            WHERE v.scope = next_lane.lane AND v.event_type = t.name AND v.pass >= coalesce(inner_turn, 0)
            ORDER BY v.pass
            LIMIT 1
        ) turns ON true
        LEFT JOIN LATERAL (
            SELECT v.at
            FROM visits v
            WHERE v.scope = next_lane.lane AND v.event_type = t.name AND v.pass = -1 AND v.at >= inner_since
            ORDER BY v.at
            LIMIT 1
        ) waits ON true
        WHERE turns.at IS NOT NULL OR waits.at IS NOT NULL;
    END LOOP;

    claimed := cardinality(leased_ids);
    IF claimed > 0 THEN
        INSERT INTO leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at, ahead_since, program, zone_data)
        VALUES (new_token, owner_name, leased_series, leased_ids, leased_versions, read_at, read_at + term,
            CASE WHEN ahead > interval '0' THEN read_at END, nullif(program_name, ''), nullif(zone_release, ''));
    END IF;
END
$$;

-- Versions and counters begin low and rise step by step. So they never reach the greatest integer, and no statement that adds to the
-- integers of many rows fails because of one of them. The differences do not overflow, because a CHECK refuses negative values.
CREATE TRIGGER users_guard AFTER UPDATE ON :"schema".users FOR EACH ROW
WHEN (NEW.version - OLD.version NOT BETWEEN 0 AND 1) EXECUTE FUNCTION :"schema".refuse_change();

CREATE TRIGGER series_new_guard AFTER INSERT ON :"schema".series FOR EACH ROW
WHEN (NEW.version > 1000000 OR NEW.retry_count > 1000000 OR NEW.claim_count > 1000000 OR NEW.crash_count > 1000000)
EXECUTE FUNCTION :"schema".refuse_change();

CREATE TRIGGER series_guard AFTER UPDATE ON :"schema".series FOR EACH ROW
WHEN (
    (NEW.id, NEW.user_id, NEW.event_type, NEW.name, NEW.detached, NEW.origin)
        IS DISTINCT FROM (OLD.id, OLD.user_id, OLD.event_type, OLD.name, OLD.detached, OLD.origin)
    -- The greatest used key of a unit never falls and is never lost.
    OR (NEW.used_unit = OLD.used_unit AND (NEW.used_key < OLD.used_key OR NEW.used_others IS DISTINCT FROM OLD.used_others))
    OR (NEW.used_unit <> OLD.used_unit AND (NEW.used_key = '' OR NEW.used_key <= (OLD.used_others -> NEW.used_unit ->> 0) COLLATE "C"))
    -- used_others is made of these keys alone, so Go can read it.
    OR (NEW.used_unit <> OLD.used_unit AND NEW.used_others IS DISTINCT FROM CASE WHEN OLD.used_key <> '' THEN
        (coalesce(OLD.used_others, '{}'::jsonb) || pg_catalog.jsonb_build_object(
            OLD.used_unit, pg_catalog.jsonb_build_array(OLD.used_key, OLD.used_nominal, OLD.used_local))) - NEW.used_unit END)
    -- A claim, a release, or both at once.
    OR NEW.version - OLD.version > 2
    OR greatest(NEW.retry_count - OLD.retry_count, NEW.claim_count - OLD.claim_count, NEW.crash_count - OLD.crash_count) > 1
    -- Another event takes the place of one: it is new. Nothing follows an event that was requeued.
    OR (NEW.event_id IS DISTINCT FROM OLD.event_id AND NEW.event_id IS NOT NULL
        AND (NEW.version <> 1 OR NEW.retry_count <> 0 OR NEW.claim_count <> 0 OR NEW.crash_count <> 0 OR NEW.origin = 'requeued'
            OR (NEW.key_unit = NEW.used_unit AND NEW.occurrence_key <= NEW.used_key)
            OR NEW.occurrence_key <= (NEW.used_others -> NEW.key_unit ->> 0) COLLATE "C"))
    OR (NEW.event_id = OLD.event_id AND (
        -- What concerns the user alone raises nothing.
        NEW.version < OLD.version
        OR least(NEW.retry_count - OLD.retry_count, NEW.claim_count - OLD.claim_count, NEW.crash_count - OLD.crash_count) < 0
        OR (NEW.idempotency_key, NEW.origin_event, NEW.follows_user, NEW.payload_made, NEW.forced)
            IS DISTINCT FROM (OLD.idempotency_key, OLD.origin_event, OLD.follows_user, OLD.payload_made, OLD.forced)
        OR ((NEW.version = OLD.version OR OLD.claim_count > 0)
            AND (NEW.target_timestamp_utc, NEW.target_timestamp_local, NEW.target_timezone, NEW.nominal_local,
                NEW.key_unit, NEW.occurrence_key)
            IS DISTINCT FROM (OLD.target_timestamp_utc, OLD.target_timestamp_local, OLD.target_timezone, OLD.nominal_local,
                OLD.key_unit, OLD.occurrence_key))))
)
EXECUTE FUNCTION :"schema".refuse_change();

-- The functions below write with the rights of their owner, whichever role runs the statement. To prevent misuse:
--   1. PUBLIC may not execute them (see the end of this file), so other roles cannot use them as triggers of their own tables.
--   2. Each refuses every table and command but its own, even for a role with EXECUTE.
--   3. search_path is fixed, with temporary tables last.
-- See docs/adr/0039-privileges.md.

-- Stores the versions of users in their open series. So a settlement sees whether the user has changed without locking the user. The
-- settings make the planner look up the rows user by user. Plans are made anew each time: one that was made while a table was
-- empty may read the whole index, also later when there are many rows. Only statements with a parameter have such plans, hence TG_OP.
CREATE FUNCTION :"schema".follow_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = :"schema", pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    -- Another trigger of the users could have a table of its own called changed.
    IF TG_RELID <> 'users'::regclass::oid OR TG_OP <> 'UPDATE' OR TG_NAME <> 'users_followed' THEN
        RAISE insufficient_privilege USING MESSAGE = 'follow_user is for updates of users alone';
    END IF;
    UPDATE series s
    SET current_user_version = c.version
    FROM changed c
    WHERE s.open_user_id = c.id AND s.current_user_version <> c.version AND TG_OP = 'UPDATE';
    UPDATE broadcast_users b
    SET zone = c.timezone
    FROM changed c
    WHERE b.user_id = c.id AND b.zone <> c.timezone AND TG_OP = 'UPDATE';
    RETURN NULL;
END
$$;

CREATE TRIGGER users_followed AFTER UPDATE ON :"schema".users REFERENCING NEW TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION :"schema".follow_user();

-- Deletes everything about a deleted user, in pages, because a statement for a long history would take too long. One DELETE deletes the
-- open events and up to a page of ended events, used keys, and rows of the trail and the outbox. If more are left, it hides the user
-- instead of deleting the row, and the sweep deletes the user again. It locks open series first, so that it waits for a settlement in
-- progress and sees its rows.
CREATE FUNCTION :"schema".forget_user() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
DECLARE
    page CONSTANT integer := 5000;
    pruned integer;
BEGIN
    IF TG_RELID <> 'users'::regclass::oid OR TG_OP <> 'DELETE' THEN
        RAISE insufficient_privilege USING MESSAGE = 'forget_user is for deletions of users alone';
    END IF;
    PERFORM FROM series s WHERE s.open_user_id = OLD.id ORDER BY s.id FOR UPDATE;
    DELETE FROM queue q USING series s WHERE s.open_user_id = OLD.id AND q.event_id = s.event_id;
    WITH ended AS (
        DELETE FROM history h WHERE h.id = ANY (ARRAY (SELECT x.id FROM history x WHERE x.user_id = OLD.id LIMIT page))
        RETURNING h.idempotency_key, h.target_timezone, h.target_timestamp_utc, h.event_type, h.id, h.status, h.origin, h.lane, h.occurrence_key
    ), removed AS (
        INSERT INTO broadcast_removed (broadcast, created_at, id, zone, status)
        SELECT e.occurrence_key, b.created_at, e.id, e.target_timezone, e.status
        FROM ended e
        CROSS JOIN LATERAL (
            SELECT o.created_at FROM broadcasts o WHERE o.name = e.occurrence_key AND o.event_type = e.event_type AND o.state <> 'ended' OFFSET 0
        ) b
        WHERE e.lane = e.event_type || '/'::text || e.occurrence_key AND e.origin IN ('scheduled', 'requeued')
    ), idle AS MATERIALIZED (
        SELECT s.id FROM series s WHERE s.user_id = OLD.id AND s.event_id IS NULL LIMIT page FOR UPDATE SKIP LOCKED
    ), emptied AS (
        DELETE FROM series s
        WHERE s.id = ANY (ARRAY (SELECT idle.id FROM idle UNION ALL SELECT x.id FROM series x WHERE x.open_user_id = OLD.id))
        RETURNING s.idempotency_key, s.target_timezone, s.target_timestamp_utc, s.event_type, s.event_id, s.id
    ), planned AS (
        DELETE FROM unplanned n WHERE n.series_id = ANY (ARRAY (SELECT emptied.id FROM emptied))
    ), gone AS (
        SELECT d.idempotency_key, d.target_timezone, d.target_timestamp_utc, d.event_type FROM ended d
        UNION ALL
        SELECT e.idempotency_key, e.target_timezone, e.target_timestamp_utc, e.event_type FROM emptied e WHERE e.event_id IS NOT NULL
    ), counted AS (
        INSERT INTO due_changes (timezone, quarter, event_type, n)
        SELECT s.target_timezone, floor(date_part('epoch'::text, s.target_timestamp_utc) / 900::float8)::integer, s.event_type, -count(*)
        FROM gone s
        GROUP BY 1, 2, 3
    )
    DELETE FROM keys k WHERE k.idempotency_key IN (SELECT gone.idempotency_key FROM gone);
    DELETE FROM audit a WHERE a.id = ANY (ARRAY (SELECT x.id FROM audit x WHERE x.user_id = OLD.id LIMIT page));
    -- EXECUTE plans it anew each time: a plan that was made while no broadcast had a list may read a whole list, also later.
    EXECUTE 'DELETE FROM broadcast_users b WHERE b.user_id = $1' USING OLD.id;
    -- Consumers who have not read a row yet must not miss it. A relay that prunes may keep its transaction open, so rows that it has
    -- locked are left to it, or to a later pruning.
    WITH read AS MATERIALIZED (
        SELECT o.sequence
        FROM outbox o
        WHERE o.user_id = OLD.id
            AND NOT EXISTS (
                SELECT FROM outbox_consumers c
                WHERE c.server <> (SELECT s.system_identifier FROM pg_control_system() s)
                    OR NOT pg_visible_in_snapshot(o.transaction_id, c.seen)
                    AND NOT (o.sequence <= c.last AND pg_visible_in_snapshot(o.transaction_id, c.reading))
            )
        LIMIT page
        FOR UPDATE OF o SKIP LOCKED
    )
    DELETE FROM outbox o WHERE o.sequence = ANY (ARRAY (SELECT read.sequence FROM read));
    GET DIAGNOSTICS pruned = ROW_COUNT;
    IF pruned < page AND NOT EXISTS (SELECT FROM history h WHERE h.user_id = OLD.id)
        AND NOT EXISTS (SELECT FROM series s WHERE s.user_id = OLD.id) AND NOT EXISTS (SELECT FROM audit a WHERE a.user_id = OLD.id) THEN
        RETURN OLD;
    END IF;
    UPDATE users u SET deleted_at = clock_timestamp(), version = u.version + 1, updated_at = clock_timestamp()
    WHERE u.id = OLD.id AND u.deleted_at IS NULL;
    RETURN NULL;
END
$$;

CREATE TRIGGER users_forgotten BEFORE DELETE ON :"schema".users FOR EACH ROW EXECUTE FUNCTION :"schema".forget_user();

-- Writes the steps of events, and the changes of opt-outs, to the trail.
CREATE FUNCTION :"schema".write_audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
DECLARE
    -- The table and the command; NULL for a table of another schema.
    cause text := CASE WHEN TG_TABLE_SCHEMA = current_schema() THEN TG_TABLE_NAME::text || ' '::text || TG_OP END;
    step text;
BEGIN
    CASE cause
    WHEN 'series INSERT', 'series UPDATE' THEN
        IF TG_OP = 'INSERT' OR NEW.event_id IS DISTINCT FROM OLD.event_id THEN
            IF NEW.event_id IS NOT NULL THEN
                step := 'created';
            ELSIF TG_OP = 'UPDATE' AND NEW.used_key = OLD.used_key AND NEW.used_unit = OLD.used_unit THEN
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
    WHEN 'history INSERT' THEN
        INSERT INTO audit (kind, event_id, user_id, event_type, version, detail)
        VALUES (lower(NEW.status), NEW.id, NEW.user_id, NEW.event_type, NEW.version, nullif(NEW.failure_reason, ''));
    WHEN 'leases INSERT' THEN
        INSERT INTO audit (kind, event_id, user_id, event_type, version)
        SELECT 'claimed', s.event_id, s.user_id, s.event_type, s.version + 1
        FROM pg_catalog.unnest(NEW.series_ids) AS held (id)
        JOIN series s ON s.id = held.id;
    WHEN 'users INSERT', 'users UPDATE' THEN
        INSERT INTO audit (kind, user_id, version, detail)
        VALUES ('opt_outs_changed', NEW.id, NEW.version, coalesce(NEW.opt_outs::text, '[]'));
    ELSE
        RAISE insufficient_privilege USING MESSAGE = 'write_audit is for the triggers of the trail alone';
    END CASE;
    RETURN NULL;
END
$$;

-- Writes changes of users, new events and ended events to the outbox. A successor is written after the end of the event before it, in
-- the same series. A detached event has no successor.
CREATE FUNCTION :"schema".write_outbox() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
DECLARE
    -- As in write_audit.
    cause text := CASE WHEN TG_TABLE_SCHEMA = current_schema() THEN TG_TABLE_NAME::text || ' '::text || TG_OP END;
BEGIN
    CASE cause
    WHEN 'series INSERT', 'series UPDATE' THEN
        INSERT INTO outbox (kind, user_id, event_id, event_type, version)
        VALUES ('event_created', NEW.user_id, NEW.event_id, NEW.event_type, NEW.version);
    WHEN 'history INSERT' THEN
        INSERT INTO outbox (kind, user_id, event_id, event_type, version)
        VALUES ('event_' || lower(NEW.status), NEW.user_id, NEW.id, NEW.event_type, NEW.version);
        INSERT INTO outbox (kind, user_id, event_id, event_type, version)
        SELECT 'event_created', s.user_id, s.event_id, s.event_type, s.version
        FROM series s
        WHERE NEW.origin IS NULL
            AND s.user_id = NEW.user_id AND s.event_type = NEW.event_type AND s.name = NEW.series_name AND s.detached = ''
            AND s.used_key = NEW.occurrence_key AND s.used_unit = NEW.key_unit
            AND s.event_id IS NOT NULL;
    WHEN 'users INSERT' THEN
        INSERT INTO outbox (kind, user_id, version) VALUES ('user_created', NEW.id, NEW.version);
    WHEN 'users UPDATE' THEN
        IF NEW.timezone <> OLD.timezone THEN
            INSERT INTO outbox (kind, user_id, version, old_timezone, new_timezone)
            VALUES ('user_timezone_changed', NEW.id, NEW.version, OLD.timezone, NEW.timezone);
        END IF;
        IF NEW.date_of_birth IS DISTINCT FROM OLD.date_of_birth OR NEW.birth_calendar IS DISTINCT FROM OLD.birth_calendar
            OR NEW.birth_day IS DISTINCT FROM OLD.birth_day
        THEN
            INSERT INTO outbox (kind, user_id, version) VALUES ('user_birthday_changed', NEW.id, NEW.version);
        END IF;
        IF NEW.deleted_at IS NOT NULL AND OLD.deleted_at IS NULL THEN
            INSERT INTO outbox (kind, user_id, version) VALUES ('user_deleted', NEW.id, NEW.version);
        END IF;
    WHEN 'users DELETE' THEN
        -- Of a user who was hidden before, it was said then.
        IF OLD.deleted_at IS NULL THEN
            INSERT INTO outbox (kind, user_id, version) VALUES ('user_deleted', OLD.id, OLD.version);
        END IF;
    ELSE
        RAISE insufficient_privilege USING MESSAGE = 'write_outbox is for the triggers of the outbox alone';
    END CASE;
    RETURN NULL;
END
$$;

-- The two functions below are for a relay. With the right to delete from a table, it could lock the table, and so stop every program that
-- writes to the outbox, or deletes users.

-- Deletes those of the oldest rows of the outbox that every consumer has read. Examines 1 to 10,000 rows. Returns how many it has
-- deleted. Rows of a user whom another transaction deletes are passed over: that transaction deletes them.
CREATE FUNCTION :"schema".prune_outbox(most integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
DECLARE
    pruned integer;
BEGIN
    IF (most BETWEEN 1 AND 10000) IS NOT TRUE THEN
        RAISE invalid_parameter_value USING MESSAGE = 'prune_outbox examines 1 to 10000 rows';
    END IF;
    WITH page AS MATERIALIZED (SELECT o.sequence FROM outbox o ORDER BY o.sequence LIMIT most FOR UPDATE SKIP LOCKED)
    DELETE FROM outbox o
    WHERE o.sequence = ANY (ARRAY (SELECT page.sequence FROM page))
        AND NOT EXISTS (
            SELECT FROM outbox_consumers c
            WHERE c.server <> (SELECT s.system_identifier FROM pg_control_system() s)
                OR NOT pg_visible_in_snapshot(o.transaction_id, c.seen)
                AND NOT (o.sequence <= c.last AND pg_visible_in_snapshot(o.transaction_id, c.reading))
        );
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END
$$;

-- Pauses a lane whose receiver has failed for too long, until it is resumed. A lane that is paused keeps its pause. Returns whether it was
-- not paused.
CREATE FUNCTION :"schema".pause_failing(failing text, reason text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    INSERT INTO lanes AS l (name, paused_since, pause_reason, pause_author)
    VALUES (failing, clock_timestamp(), reason, 'breaker')
    ON CONFLICT (name) DO UPDATE
    SET paused_since = excluded.paused_since, paused_until = NULL, pause_reason = excluded.pause_reason, pause_author = excluded.pause_author
    WHERE l.paused_since IS NULL OR l.paused_until <= now();
    RETURN FOUND;
END
$$;

-- Deletes a consumer. Waits until a read under this name has ended. Returns whether there was one.
CREATE FUNCTION :"schema".delete_consumer(consumer text) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = :"schema", pg_temp AS $$
BEGIN
    DELETE FROM outbox_consumers c WHERE c.name = consumer;
    RETURN FOUND;
END
$$;

COMMENT ON TABLE :"schema".migrations IS 'The migrations that were applied';
COMMENT ON TABLE :"schema".users IS 'The users of the events';
COMMENT ON TABLE :"schema".series IS 'One row per series of a user, with the open event of the series';
COMMENT ON TABLE :"schema".queue IS 'The events that are PENDING';
COMMENT ON TABLE :"schema".history IS 'The events that have ended';
COMMENT ON TABLE :"schema".unplanned IS 'Series whose next event is still to be planned';
COMMENT ON TABLE :"schema".keys IS 'The idempotency keys of all events';
COMMENT ON TABLE :"schema".pruning IS 'The instant before which idempotency keys may be missing';
COMMENT ON TABLE :"schema".leases IS 'One row per claimed batch; the events that it lists are PROCESSING';
COMMENT ON TABLE :"schema".due_counts IS 'The number of due events in each quarter hour, by zone and type';
COMMENT ON TABLE :"schema".due_changes IS 'Changes that are not folded into due_counts yet';
COMMENT ON TABLE :"schema".zone_rules IS 'The zone rules that the instants of pending events follow';
COMMENT ON TABLE :"schema".calendars IS 'The releases of the calendars that stored events follow';
COMMENT ON TABLE :"schema".zone_marks IS 'Zones with pending events that follow other rules than zone_rules has';
COMMENT ON TABLE :"schema".quarantine IS 'New releases of zone rules and calendars that wait for an operator, or have waited';
COMMENT ON TABLE :"schema".lanes IS 'The lanes that have limits, or are or were paused';
COMMENT ON TABLE :"schema".lane_states IS 'One row per lane that has limits, or whose receiver fails';
COMMENT ON TABLE :"schema".lane_clock IS 'When the clock was set';
COMMENT ON TABLE :"schema".visits IS 'When lanes with names are to be looked at';
COMMENT ON TABLE :"schema".broadcasts IS 'Broadcasts: one event for each of many users';
COMMENT ON TABLE :"schema".broadcast_zones IS 'How far broadcasts are in each zone';
COMMENT ON TABLE :"schema".broadcast_users IS 'The users of broadcasts to a list';
COMMENT ON TABLE :"schema".broadcast_removed IS 'Ended events of broadcasts that were pruned or deleted with their users, and still count';
COMMENT ON TABLE :"schema".broadcast_steps IS 'What was done to broadcasts, and by whom';
COMMENT ON TABLE :"schema".settings IS 'The settings that all programs must have with the same value';
COMMENT ON TABLE :"schema".audit IS 'The steps of events, while the audit trail is enabled';
COMMENT ON TABLE :"schema".outbox IS 'Domain events for other services, while the outbox is enabled';
COMMENT ON TABLE :"schema".outbox_consumers IS 'The position of each consumer of the outbox';
COMMENT ON VIEW :"schema".events IS 'All events, open and ended';
COMMENT ON VIEW :"schema".pending_events IS 'The events that are PENDING';
COMMENT ON VIEW :"schema".processing_events IS 'The events that are PROCESSING';
COMMENT ON VIEW :"schema".ended_events IS 'The events that have ended';

-- PUBLIC may neither execute nor write anything, whatever default privileges the database has.
REVOKE ALL ON FUNCTION :"schema".refuse_change(), :"schema".follow_user(), :"schema".forget_user(), :"schema".write_audit(),
    :"schema".write_outbox(), :"schema".prune_outbox(integer), :"schema".delete_consumer(text), :"schema".visit_lane(),
    :"schema".pause_failing(text, text),
    :"schema".lane_room(text, timestamptz, timestamptz, bigint),
    :"schema".step_lane(text, timestamptz, timestamptz, bigint, timestamptz, timestamptz, bigint[], uuid[], integer[], timestamptz[]),
    :"schema".claim_lanes(uuid, text, text, text, text[], bigint, interval, interval, timestamptz, timestamptz, timestamptz, boolean, bigint, timestamptz) FROM PUBLIC;
REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON :"schema".migrations, :"schema".users, :"schema".series, :"schema".queue,
    :"schema".history, :"schema".keys, :"schema".pruning, :"schema".leases, :"schema".zone_rules, :"schema".zone_marks, :"schema".calendars, :"schema".quarantine, :"schema".lanes,
    :"schema".lane_states, :"schema".lane_clock, :"schema".visits, :"schema".broadcasts, :"schema".broadcast_zones, :"schema".broadcast_users, :"schema".broadcast_removed, :"schema".broadcast_steps,
    :"schema".unplanned, :"schema".settings, :"schema".audit, :"schema".outbox, :"schema".outbox_consumers, :"schema".due_counts,
    :"schema".due_changes, :"schema".pending_events, :"schema".processing_events, :"schema".ended_events, :"schema".events FROM PUBLIC;
REVOKE USAGE, UPDATE ON SEQUENCE :"schema".broadcast_steps_id_seq, :"schema".series_id_seq, :"schema".audit_id_seq, :"schema".zone_marks_id_seq,
    :"schema".outbox_sequence_seq FROM PUBLIC;

-- After everything that creates, so that a partly applied file does not count as the complete schema.
INSERT INTO :"schema".migrations (version, name) VALUES (1, '0001_schema');

-- The search_path as it was.
SELECT pg_catalog.set_config('search_path', pg_catalog.substr(pg_catalog.current_setting('search_path'), 13), true)
WHERE pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.~) '^pg_catalog, ';
