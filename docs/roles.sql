-- Roles with no more privileges than their tasks need, for a database that other programs use too.
--
--   psql -v ON_ERROR_STOP=1 -v schema=almanac -f docs/roles.sql
--
-- almanac_owner    owns the PostgreSQL schema and migrates it
-- almanac_worker   runs Scheduler.Run: claims, delivers, settles, sweeps, follows zone rules, as does almanac reconcile
-- almanac_api      stores users, plans, cancels and reads their events; it neither claims nor settles
-- almanac_operator requeues events and pauses types; it may do what worker and api may
-- almanac_relay    reads the outbox of domain events as a consumer, and prunes it; see docs/operations.md
-- almanac_reader   reads types, times, states and counts of events and users, and nothing that identifies a user
--
-- Run it before the first migration, to make the roles and the schema, and again after each migration, because grants on columns
-- cannot be made ahead of the columns. It is one transaction, can be run any number of times, and revokes all other privileges of
-- these roles. The schema must be Almanac's own. The role that runs it must be allowed to create roles, and to grant CREATE on the
-- database. Unless it is a superuser, it becomes a member of almanac_owner, because only a member can transfer ownership. Once the
-- roles exist, almanac_owner may run it.
--
-- None of the roles can log in. Programs log in as members of them, of several where one process does several things. A migration
-- must run as the owner. Otherwise its new tables belong to the member that ran it, until a superuser runs this file:
--
--   CREATE ROLE greeter LOGIN PASSWORD '…' IN ROLE almanac_worker, almanac_api;
--   CREATE ROLE deploy LOGIN PASSWORD '…' IN ROLE almanac_owner;
--   ALTER ROLE deploy SET role = 'almanac_owner';
--
-- The names of roles belong to the cluster. For a second Almanac on it, give them another prefix:
--
--   sed 's/almanac_/other_/g' docs/roles.sql | psql -v ON_ERROR_STOP=1 -v schema=other
--
-- Grants limit columns, not rows. A worker removes deleted users and old ended events, and so could delete other users, and events
-- that ended just now. A worker and an API server could delete events in flight, and keys of stored events. A relay could move other
-- consumers, and delete rows that they have not read. By default PUBLIC may connect to the database, which this file does not change.
--
-- A role with UPDATE or DELETE on a whole table may lock the table (LOCK in the manual), and so stop all other programs until its
-- transaction ends. The worker may lock users, queue, history, keys, leases, zone_rules, zone_marks, unplanned, due_counts and
-- due_changes, and the API users, queue and keys. The operator may also lock lane_states and the tables of broadcasts. An API may also mark a zone with a release that no program has. The database
-- follows the mark, unless its programs have WithQuarantine, and each program reports that its zone data is older, until almanac
-- reconcile --trust runs. Give these two roles to your own programs only. The relay and the reader cannot lock a table against a writer.

BEGIN;

-- Another role may have created operators and functions in other schemas, which this file must not run.
SET LOCAL search_path TO pg_catalog, pg_temp;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['almanac_owner', 'almanac_worker', 'almanac_api', 'almanac_operator', 'almanac_relay', 'almanac_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
    END LOOP;

    -- What an operator does to an event is what a worker and the API do, by hand.
    IF NOT (pg_has_role('almanac_operator', 'almanac_worker', 'MEMBER') AND pg_has_role('almanac_operator', 'almanac_api', 'MEMBER')) THEN
        GRANT almanac_worker, almanac_api TO almanac_operator;
    END IF;

    -- Only a member of the owner may hand over the schema, and grant in the owner's stead.
    IF current_user <> 'almanac_owner' AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        GRANT almanac_owner TO CURRENT_USER;
    END IF;

    -- The first migration says CREATE SCHEMA IF NOT EXISTS, for which PostgreSQL wants this right also where the schema exists.
    IF NOT has_database_privilege('almanac_owner', current_database(), 'CREATE') THEN
        EXECUTE format('GRANT CREATE ON DATABASE %I TO almanac_owner', current_database());
    END IF;
END
$$;

-- Every role needs USAGE on the schema. Only the owner creates objects.
CREATE SCHEMA IF NOT EXISTS :"schema";
ALTER SCHEMA :"schema" OWNER TO almanac_owner;
REVOKE ALL ON SCHEMA :"schema" FROM PUBLIC, almanac_worker, almanac_api, almanac_operator, almanac_relay, almanac_reader;
GRANT USAGE ON SCHEMA :"schema" TO almanac_worker, almanac_api, almanac_operator, almanac_relay, almanac_reader;

-- Tables and columns of later migrations: the programs may read them at once, and may write them when this file has been run again.
-- A new table may hold personal data, so the reader sees none of them before. EXECUTE on functions is PUBLIC's by default, and can
-- only be revoked for the whole database, here for the functions of the owner alone.
ALTER DEFAULT PRIVILEGES FOR ROLE almanac_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE almanac_owner IN SCHEMA :"schema" GRANT SELECT ON TABLES TO almanac_worker, almanac_api;

-- The statements of the block below find the tables by this: psql fills in no variables there.
SET LOCAL search_path TO :"schema", pg_temp;

DO $$
DECLARE
    object text;
BEGIN
    IF to_regclass('migrations') IS NULL THEN
        RAISE NOTICE 'the schema is empty: migrate it as almanac_owner, and run this again';
        RETURN;
    END IF;

    -- Another role may have created these before the roles existed. Revoke what earlier releases, or anyone by hand, granted. A
    -- trigger runs its function without the privilege to execute it. The objects are named, so that an object of another role never
    -- becomes the owner's. ALTER TABLE and GRANT also take views.
    FOREACH object IN ARRAY ARRAY['TABLE migrations', 'TABLE users', 'TABLE series', 'TABLE queue', 'TABLE history', 'TABLE keys',
        'TABLE pruning', 'TABLE leases', 'TABLE zone_rules', 'TABLE zone_marks', 'TABLE calendars', 'TABLE quarantine', 'TABLE lanes', 'TABLE lane_states', 'TABLE lane_clock', 'TABLE visits', 'TABLE broadcasts', 'TABLE broadcast_zones', 'TABLE broadcast_users', 'TABLE broadcast_removed', 'TABLE broadcast_steps', 'TABLE settings', 'TABLE unplanned',
        'TABLE due_counts', 'TABLE due_changes', 'TABLE audit', 'TABLE outbox', 'TABLE outbox_consumers', 'TABLE pending_events',
        'TABLE processing_events', 'TABLE ended_events', 'TABLE events', 'FUNCTION refuse_change()', 'FUNCTION follow_user()',
        'FUNCTION forget_user()', 'FUNCTION write_audit()', 'FUNCTION write_outbox()', 'FUNCTION prune_outbox(integer)',
        'FUNCTION delete_consumer(text)', 'FUNCTION visit_lane()', 'FUNCTION pause_failing(text, text)',
        'FUNCTION lane_room(text, timestamptz, timestamptz, bigint)',
        'FUNCTION step_lane(text, timestamptz, timestamptz, bigint, timestamptz, timestamptz, bigint[], uuid[], integer[], timestamptz[])',
        'FUNCTION claim_lanes(uuid, text, text, text, text[], bigint, interval, interval, timestamptz, timestamptz, timestamptz, boolean, bigint, timestamptz)'] LOOP
        EXECUTE format('ALTER %s OWNER TO almanac_owner', object);
        EXECUTE format('REVOKE ALL ON %s FROM PUBLIC, almanac_worker, almanac_api, almanac_operator, almanac_relay, almanac_reader', object);
    END LOOP;
    REVOKE ALL ON SEQUENCE broadcast_steps_id_seq, series_id_seq, audit_id_seq, outbox_sequence_seq, zone_marks_id_seq
        FROM PUBLIC, almanac_worker, almanac_api, almanac_operator, almanac_relay, almanac_reader;

    -- Programs call Migrate when they start. Where nothing is missing, it only reads this table.
    GRANT SELECT ON migrations TO almanac_worker, almanac_api, almanac_relay, almanac_reader;

    -- The worker and the API. Planning reads the whole user, the zone rules and the quiet hours. Events in flight and ended events are
    -- read through the views, which act as the owner: a role without privileges on leases and history can neither claim nor settle.
    GRANT SELECT ON users, series, queue, keys, unplanned, pruning, zone_rules, zone_marks, calendars, quarantine, settings, due_counts, due_changes, audit,
        pending_events, processing_events, ended_events, events TO almanac_worker, almanac_api;
    -- The API deletes users, and the sweep those who were deleted while something was in flight. Triggers that act as the owner delete
    -- all rows about the user, and update the series after an edit.
    GRANT DELETE ON users TO almanac_worker, almanac_api;
    -- The API plans; a successor or new zone rules may begin another series. The user, type and name of a series never change. A
    -- trigger updates the version of the user, except when an ended series begins again.
    GRANT INSERT (user_id, event_type, name, current_user_version, event_id, occurrence_key, key_unit, target_timestamp_utc,
        target_timestamp_local, nominal_local, target_timezone, policies, idempotency_key, key_instant, ready_at, delivery_payload,
        user_version, detached, origin, origin_event, follows_user, payload_made, forced, lane) ON series TO almanac_worker, almanac_api;
    -- The worker stores outcomes, releases and successors. New zone rules move instants; an event whose wall time they skip may get
    -- another occurrence, or be removed. The API gives a pending event a new target, gives a series without an event a new one, and
    -- removes or cancels a pending event. A cancellation uses the key. The guard refuses lower keys, so used keys stay used.
    GRANT UPDATE (current_user_version, used_unit, used_key, used_nominal, used_local, used_others, event_id, occurrence_key, key_unit,
        target_timestamp_utc, target_timestamp_local, nominal_local, target_timezone, policies, idempotency_key, key_instant, ready_at,
        delivery_payload, user_version, origin_event, follows_user, payload_made, last_error, retry_count, claim_count, crash_count,
        version, created_at, updated_at, lane) ON series TO almanac_worker, almanac_api;
    -- A claim deletes rows of the queue, and a release inserts them again, as does a move. Claims and moves lock rows before, which
    -- needs the right to update some column. The guard refuses every such update.
    GRANT INSERT (available_at, event_id, series_id, event_type, delayed_from, retry_count, lane, consulted), UPDATE (available_at), DELETE ON queue
        TO almanac_worker, almanac_api;
    -- A key is stored with its event, and deleted with the last event that has it.
    GRANT INSERT, UPDATE (holders), DELETE ON keys TO almanac_worker, almanac_api;
    -- The statement that cancels what a user refuses by now can also leave the series to a program that has the handler.
    GRANT INSERT, UPDATE (used_unit, used_key, last_error, failures, since, retry_at) ON unplanned TO almanac_worker, almanac_api;
    -- A program marks events that it planned by other zone rules than those of the database, and counts all events that it stores.
    GRANT INSERT (zone, fingerprint, since, version) ON zone_marks TO almanac_worker, almanac_api;
    GRANT INSERT ON due_changes TO almanac_worker, almanac_api;

    -- The API creates broadcasts, and adds users to their lists. Both add zones that users have by now, and change the state: the API when a
    -- list is complete, the worker when everything is stored or has ended. The API leases none.
    GRANT SELECT ON broadcasts, broadcast_zones, broadcast_users, broadcast_removed, broadcast_steps TO almanac_worker, almanac_api;
    GRANT INSERT (broadcast, zone, wall, due, late, next_at) ON broadcast_zones TO almanac_worker, almanac_api;
    GRANT UPDATE (state, look_at) ON broadcasts TO almanac_worker, almanac_api;

    -- The worker alone. Settling and replanning lock users FOR NO KEY UPDATE, removing them FOR UPDATE. Each wants the right to update
    -- some column, whichever: this one says least. Pruning locks ended events, whose guard refuses every update.
    GRANT UPDATE (updated_at) ON users, history TO almanac_worker;
    -- Ended events are inserted once, and pruned.
    GRANT SELECT, INSERT, DELETE ON history TO almanac_worker;
    GRANT UPDATE (before) ON pruning TO almanac_worker;
    -- A lease is inserted by a claim, renewed, moved when the clock was set back, and deleted; events move between leases.
    GRANT SELECT, INSERT, UPDATE (series_ids, event_ids, versions, claimed_at, expires_at, ahead_since, alone), DELETE ON leases TO almanac_worker;
    -- Comparing rules locks the table, for which privileges on columns do not suffice. Marks are deleted when the zone was examined.
    GRANT INSERT, UPDATE ON zone_rules TO almanac_worker;
    GRANT INSERT, UPDATE (release, until, since, hashes, changed, releases) ON calendars TO almanac_worker;
    -- A new release that would change many events waits for an operator, who answers as a worker that compares rules.
    GRANT INSERT (name, calendar, release, changes, largest, first_local, first_utc, since, answered_at, accepted, author, reason),
        UPDATE (release, changes, largest, first_local, first_utc, since, answered_at, accepted, author, reason) ON quarantine TO almanac_worker;
    GRANT DELETE ON zone_marks, unplanned TO almanac_worker;
    -- The sweep folds the counts: it locks the changes, for which it needs the right to update.
    GRANT INSERT ON due_counts TO almanac_worker;
    GRANT UPDATE (n), DELETE ON due_counts, due_changes TO almanac_worker;
    -- Claims obey the pauses and limits of lanes: they replace the states, and cannot change the limits. A breaker can pause its lane by a
    -- function of the owner, which changes no other pause. A program that starts stores the settings that all programs must have with the
    -- same value.
    GRANT SELECT ON lanes TO almanac_worker;
    GRANT EXECUTE ON FUNCTION pause_failing(text, text) TO almanac_worker;
    GRANT SELECT, UPDATE (step, at, full_at, day, of_day, of_eve, slot, started, held_series, held_ids, held_versions, since, searched_at, allowed, retry_at, opened_at,
        failures, answer_ids, answers_at, answers_fail),
        INSERT (lane, full_at, allowed, retry_at, opened_at, failures, answer_ids, answers_at, answers_fail) ON lane_states TO almanac_worker;
    GRANT SELECT, UPDATE (emptied_at, server, seen_at) ON lane_clock TO almanac_worker;
    -- A trigger that acts as the owner adds visits of new events.
    GRANT SELECT, INSERT, UPDATE (at, since), DELETE ON visits TO almanac_worker;
    -- They act with the rights of the worker.
    GRANT EXECUTE ON FUNCTION lane_room(text, timestamptz, timestamptz, bigint),
        step_lane(text, timestamptz, timestamptz, bigint, timestamptz, timestamptz, bigint[], uuid[], integer[], timestamptz[]),
        claim_lanes(uuid, text, text, text, text[], bigint, interval, interval, timestamptz, timestamptz, timestamptz, boolean, bigint, timestamptz) TO almanac_worker;
    GRANT INSERT (name, value, program), UPDATE (value, program, since) ON settings TO almanac_worker;
    -- How far a broadcast is.
    GRANT UPDATE (ended_at, requeue_at, requeued, missed, cancel_at, cancel_id, counted, lease, lease_until) ON broadcasts TO almanac_worker;
    GRANT UPDATE (reads, next_at, position, users_read, stored, opted_out, refused, now_opted_out, now_refused, locked, left_out, requeued, delivered,
        failed, cancelled) ON broadcast_zones TO almanac_worker;
    -- Ended events of broadcasts that are pruned still count. Those of deleted users are stored by a trigger that acts as the owner.
    GRANT INSERT (broadcast, created_at, id, zone, status) ON broadcast_removed TO almanac_worker;
    -- Events that a stop has cancelled are requeued after a resume. A requeued event keeps the number of claims and the last error.
    GRANT INSERT (claim_count, last_error) ON series TO almanac_worker;

    -- The API alone. It edits users, and hides a deleted user whose events are in flight. The id and the time of creation stay.
    GRANT INSERT (id, first_name, last_name, date_of_birth, birth_calendar, birth_day, timezone, zone_source, attributes, locale, email,
        external_id, opt_outs, creation_digest, folded_name, folded_last_name, folded_email), UPDATE (first_name, last_name, date_of_birth,
        birth_calendar, birth_day, timezone, zone_source, attributes, locale, email, external_id, opt_outs, version, deleted_at, updated_at,
        folded_name, folded_last_name, folded_email) ON users TO almanac_api;
    -- Finding the series of an event in flight, and releasing events that were claimed ahead, need these columns of leases.
    GRANT SELECT (series_ids, event_ids, versions, ahead_since) ON leases TO almanac_api;
    -- An event that waits for another attempt is cancelled if its user refuses it by now. Without the columns executed_at and
    -- lease_token, a row cannot say that an event was delivered: a check refuses COMPLETED without a time.
    GRANT INSERT (id, user_id, event_type, occurrence_key, key_unit, status, target_timestamp_utc, target_timestamp_local, nominal_local,
        target_timezone, policies, idempotency_key, key_instant, ready_at, delivery_payload, user_version, failure_reason, last_error,
        retry_count, claim_count, crash_count, version, created_at, updated_at, origin_event, series_name, origin, follows_user,
        payload_made, forced, lane) ON history TO almanac_api;

    GRANT INSERT (name, event_type, payload, wall, instant, passed, attributes, locale, zones, listed, newcomers, state, look_at) ON broadcasts
        TO almanac_api;
    GRANT INSERT (broadcast, action, reason) ON broadcast_steps TO almanac_api;
    GRANT INSERT (user_id, broadcast, zone) ON broadcast_users TO almanac_api;

    -- The operator, besides what the worker and the API may.
    GRANT SELECT, INSERT, UPDATE (rate, burst, places, daily, weight, paused_since, paused_until, pause_reason, pause_author) ON lanes
        TO almanac_operator;
    GRANT DELETE ON lane_states TO almanac_operator;
    -- A broadcast is stopped with a pause of its lane, so only the operator stops one, and deletes one that has ended.
    GRANT DELETE ON broadcasts, broadcast_zones, broadcast_users, broadcast_removed, broadcast_steps TO almanac_operator;
    -- A deletion locks the users of a list, which wants the right to update a column.
    GRANT UPDATE (zone) ON broadcast_users TO almanac_operator;

    -- The relay. What it reads holds ids, types and kinds. Triggers write the outbox. Functions of the owner delete, because the right
    -- to delete from a table is the right to lock it.
    GRANT SELECT ON outbox, outbox_consumers, outbox_sequence_seq TO almanac_relay;
    GRANT INSERT (name, seen, low, reading, next_low, last), UPDATE (seen, low, reading, next_low, last, moved_at) ON outbox_consumers
        TO almanac_relay;
    GRANT EXECUTE ON FUNCTION prune_outbox(integer), delete_consumer(text) TO almanac_relay;

    -- The reader. Columns are named one by one, so that a new column stays hidden until it is added here. Of users it reads how many
    -- there are in which zones: without ids, and without times of creation, which are those of their first events.
    GRANT SELECT (timezone, deleted_at) ON users TO almanac_reader;
    -- Without user ids, so that no birthday can be assigned to a user; without texts of the host and of receivers; and without
    -- idempotency keys, which can be guessed: see docs/adr/0039-privileges.md. A count reads each of the views by itself.
    GRANT SELECT (id, event_type, status, target_timestamp_utc, target_timestamp_local, target_timezone, policies, available_at, lease_token,
        executed_at, retry_count, claim_count, crash_count, version, created_at, updated_at, origin, origin_event, delayed_from, lane, of_broadcast)
        ON events, pending_events, processing_events, ended_events TO almanac_reader;
    -- How long something waits, or has waited, is asked of the queue itself; of a series no more than which event is open and when it is due.
    GRANT SELECT (available_at, event_id, series_id, event_type, delayed_from, retry_count, lane, consulted) ON queue TO almanac_reader;
    GRANT SELECT (id, event_id, version, target_timestamp_utc) ON series TO almanac_reader;
    GRANT SELECT (token, owner, program, zone_data, event_ids, claimed_at, expires_at) ON leases TO almanac_reader;
    GRANT SELECT (zone, fingerprint, since, version, recheck) ON zone_rules TO almanac_reader;
    GRANT SELECT (id, zone, fingerprint, since, version) ON zone_marks TO almanac_reader;
    GRANT SELECT (name, release, until, since, hashes, changed, releases) ON calendars TO almanac_reader;
    GRANT SELECT (name, calendar, release, changes, largest, first_local, first_utc, since, answered_at, accepted, author, reason) ON quarantine
        TO almanac_reader;
    -- The authors of pauses and of answers about releases are the only principals that a reader sees: a viewer must know whom to ask.
    GRANT SELECT (name, rate, burst, places, daily, weight, paused_since, paused_until, pause_reason, pause_author) ON lanes TO almanac_reader;
    GRANT SELECT (lane, step, at, full_at, day, of_day, of_eve, slot, started, held_series, held_ids, held_versions, since, searched_at, allowed, retry_at, opened_at,
        failures) ON lane_states TO almanac_reader;
    GRANT SELECT (scope, event_type, pass, at) ON visits TO almanac_reader;
    GRANT SELECT (name, value, program, since) ON settings TO almanac_reader;
    -- When something is broadcast and how far it is: without what, without attributes of users, without principals, and without the last
    -- user who was read.
    GRANT SELECT (name, event_type, wall, instant, passed, locale, zones, listed, newcomers, state, created_at, ended_at, look_at) ON broadcasts TO almanac_reader;
    GRANT SELECT (id, broadcast, action, at) ON broadcast_steps TO almanac_reader;
    GRANT SELECT (broadcast, zone, wall, due, late, reads, next_at, users_read, stored, opted_out, refused, now_opted_out, now_refused, locked, left_out, requeued, delivered,
        failed, cancelled) ON broadcast_zones TO almanac_reader;
    GRANT SELECT (broadcast, created_at, id, zone, status) ON broadcast_removed TO almanac_reader;
    -- How many events are due when and where. A zone with one user shows when that user has an event, as the events do.
    GRANT SELECT (timezone, quarter, event_type, n) ON due_counts, due_changes TO almanac_reader;
    -- Without user ids and reasons, as the events. Without principals, which may be names of people.
    GRANT SELECT (id, at, kind, event_id, event_type, version, actor) ON audit TO almanac_reader;
    -- How far consumers are. Without user ids, again.
    GRANT SELECT (sequence, id, transaction_id, at, kind, event_id, event_type, version) ON outbox TO almanac_reader;
    GRANT SELECT ON outbox_consumers TO almanac_reader;
END
$$;

COMMIT;
