-- Outcomes wait until this index is there; claims do not. A host with a long history makes it before, with CONCURRENTLY. This
-- statement comes first, because a settlement locks history before the queue. In another order, each would wait for the other.
CREATE INDEX IF NOT EXISTS history_due ON :"schema".history (event_type, target_timestamp_utc);

-- What is pending can be found by its target: available_at is the target of an event unless the event was released, and then
-- delayed_from is. Programs of the previous release may run beside this one; they do not know the column, and their rows take its
-- default. Rows of the queue are never updated, so those of delayed events are replaced.
ALTER TABLE :"schema".queue ADD COLUMN delayed_from timestamptz;

ALTER TABLE :"schema".queue ALTER COLUMN delayed_from SET DEFAULT '-infinity';

WITH delayed AS (
    DELETE FROM :"schema".queue q
    USING :"schema".series s
    WHERE s.id = q.series_id
        AND s.event_id = q.event_id
        AND q.available_at <> s.target_timestamp_utc
    RETURNING q.available_at, q.event_id, q.series_id, q.event_type, s.target_timestamp_utc
)
INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from)
SELECT available_at, event_id, series_id, event_type, target_timestamp_utc
FROM delayed;

CREATE INDEX queue_delayed ON :"schema".queue (delayed_from) WHERE delayed_from IS NOT NULL;

CREATE OR REPLACE VIEW :"schema".pending_events AS
SELECT
    q.event_id AS id, s.user_id, q.event_type, s.occurrence_key, 'PENDING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version, q.available_at,
    NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason, s.last_error, s.retry_count,
    s.claim_count, s.crash_count, s.version, s.created_at, s.updated_at, s.requeued_from, q.delayed_from
FROM :"schema".queue q
JOIN :"schema".series s ON s.id = q.series_id AND q.event_id BETWEEN s.event_id AND s.event_id;

-- OFFSET 0 has each series looked up by its id: nobody knows how many a lease lists, and statistics would have the table read.
CREATE OR REPLACE VIEW :"schema".processing_events AS
SELECT
    held.event_id AS id, s.user_id, s.event_type, s.occurrence_key, 'PROCESSING'::varchar(20) AS status, s.target_timestamp_utc,
    s.target_timestamp_local, s.target_timezone, s.policies, s.idempotency_key, s.delivery_payload, s.user_version,
    NULL::timestamptz AS available_at, l.token AS lease_token, NULL::timestamptz AS executed_at, NULL::varchar(1100) AS failure_reason,
    s.last_error, s.retry_count, s.claim_count + 1 AS claim_count, s.crash_count, s.version + 1 AS version, s.created_at,
    l.claimed_at AS updated_at, s.requeued_from, NULL::timestamptz AS delayed_from
FROM :"schema".leases l
CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
CROSS JOIN LATERAL (
    SELECT
        x.user_id, x.event_type, x.occurrence_key, x.target_timestamp_utc, x.target_timestamp_local, x.target_timezone, x.policies,
        x.idempotency_key, x.delivery_payload, x.user_version, x.last_error, x.retry_count, x.claim_count, x.crash_count, x.version,
        x.created_at, x.requeued_from
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
    h.claim_count, h.crash_count, h.version, h.created_at, h.updated_at, h.requeued_from,
    NULL::timestamptz AS delayed_from
FROM :"schema".history h;

CREATE OR REPLACE VIEW :"schema".events AS
SELECT * FROM :"schema".pending_events
UNION ALL
SELECT * FROM :"schema".processing_events
UNION ALL
SELECT * FROM :"schema".ended_events;

COMMENT ON TABLE :"schema".migrations IS 'The migrations that were applied';
COMMENT ON VIEW :"schema".pending_events IS 'The events that are PENDING, with the columns of events';
COMMENT ON VIEW :"schema".processing_events IS 'The events that are PROCESSING, with the columns of events';
COMMENT ON VIEW :"schema".ended_events IS 'The events that have ended, with the columns of events';
COMMENT ON COLUMN :"schema".queue.delayed_from IS 'The target of an event that is available later than that; NULL where available_at is the target';
COMMENT ON INDEX :"schema".migrations_pkey IS 'Each migration once';
COMMENT ON INDEX :"schema".users_pkey IS 'One user';
COMMENT ON INDEX :"schema".users_deleted IS 'The few users who are deleted and not yet removed';
COMMENT ON INDEX :"schema".series_pkey IS 'One series';
COMMENT ON INDEX :"schema".series_name_key IS 'One series of a user, and all series of a user';
COMMENT ON INDEX :"schema".series_open IS 'The open series of a user, however many have ended';
COMMENT ON INDEX :"schema".queue_due IS 'Claims: what is due of a type, oldest first, with FOR UPDATE SKIP LOCKED';
COMMENT ON INDEX :"schema".queue_event IS 'One pending event, and pages of pending events in order of creation';
COMMENT ON INDEX :"schema".queue_delayed IS 'Pending events that are available later than their target, by target';
COMMENT ON INDEX :"schema".history_pkey IS 'One ended event, and pages of ended events in order of creation';
COMMENT ON INDEX :"schema".history_user IS 'The ended events of a user';
COMMENT ON INDEX :"schema".history_due IS 'Ended events of a type, by target';
COMMENT ON INDEX :"schema".history_failed IS 'Pages of failures and cancellations';
COMMENT ON INDEX :"schema".unplanned_pkey IS 'A series waits once';
COMMENT ON INDEX :"schema".unplanned_user IS 'Pages of users who have waiting series of a type';
COMMENT ON INDEX :"schema".keys_pkey IS 'No idempotency key belongs to two occurrences';
COMMENT ON INDEX :"schema".leases_pkey IS 'One lease';
COMMENT ON INDEX :"schema".zone_rules_pkey IS 'The rules of a zone';
COMMENT ON INDEX :"schema".zone_marks_pkey IS 'One mark';
COMMENT ON INDEX :"schema".pauses_pkey IS 'A type is paused once';
COMMENT ON INDEX :"schema".audit_pkey IS 'The trail in the order in which it was written';
COMMENT ON INDEX :"schema".audit_event IS 'The trail of an event';
COMMENT ON INDEX :"schema".audit_user IS 'The trail of a user';
COMMENT ON INDEX :"schema".outbox_pkey IS 'The outbox in the order in which it was written';
COMMENT ON INDEX :"schema".outbox_consumers_pkey IS 'One consumer';
