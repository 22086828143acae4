-- End events, and put their successors in their place. These arrays have one element per event:
--   @series bigint[], @ids uuid[], @tokens uuid[]: the series, the event and the lease.
--   @versions integer[]: the version of the event while it was PENDING.
--   @users integer[]: the version that the user must still have. NULL means any version.
--   @statuses text[]: the status in which the event ends. NULL means COMPLETED.
--   @executed timestamptz[], @failures text[]: the columns executed_at and failure_reason.
--   @retries integer[]: how much to add to the column retry_count. NULL means nothing.
--   @ended timestamp[]: what clocks in the user's zone show now.
-- The other arrays have the columns of the successors that newEvent in write.go lists and that differ within a series. NULL means
-- that there is no successor, or that the column keeps its value: @next_ids uuid[], @keys text[], @units text[], @due timestamptz[],
-- @wall timestamp[], @zones text[], @policies text[], @idempotency_keys text[], @payloads text[] (JSON), @user_versions integer[], @lanes text[],
-- @consulted text[] (NULL: the successor has consulted nothing).
-- In @ready timestamptz[], NULL means the instant in @due. In @nominal timestamp[], NULL means the wall time in @wall.
-- @now timestamptz is the same for all events. The caller has checked the leases. An event that has changed since its claim is left
-- unchanged. The statement passes the series once more as an array of unknown length, which keeps the planner from reading the whole
-- table. "was" has each row as it was before; it goes to the history. The row is found again by its ctid: a row that was changed
-- meanwhile has another ctid, and is left alone. A key that belongs to another event is an error (keys_pkey). A lease ends here
-- if all its events end here, so that end_leases need not examine it.
-- Locks the series FOR NO KEY UPDATE. It waits for no series: a series that another transaction has locked is left alone.
-- Returns the ids of the events that ended.
WITH n AS MATERIALIZED (
    SELECT *
    FROM unnest(
        @series::bigint[], @ids::uuid[], @versions::integer[], @users::integer[], @tokens::uuid[], @statuses::text[],
        @executed::timestamptz[], @failures::text[], @retries::integer[], @ended::timestamp[], @next_ids::uuid[], @keys::text[],
        @units::text[], @due::timestamptz[], @ready::timestamptz[], @wall::timestamp[], @nominal::timestamp[], @zones::text[], @policies::text[],
        @idempotency_keys::text[], @payloads::text[], @user_versions::integer[], @lanes::text[], @consulted::text[]
    ) AS n (
        series_id, id, version, current_user_version, token, status, executed_at, failure_reason, retries, ended_local, next_id, next_key,
        next_unit, next_due, next_ready, next_wall, next_nominal, next_zone, next_policies, next_idempotency_key, next_payload, next_user_version, next_lane, next_consulted)
), was AS MATERIALIZED (
    SELECT s.ctid AS place, s.*
    FROM :"schema".series s
    WHERE s.id = ANY (ARRAY (SELECT pg_catalog.unnest(@series::bigint[])))
    FOR NO KEY UPDATE SKIP LOCKED
), ended AS (
    UPDATE :"schema".series s
    SET used_key = was.occurrence_key, used_unit = was.key_unit,
        used_nominal = coalesce(was.nominal_local, was.target_timestamp_local),
        used_local = n.ended_local, used_others = :used_others,
        event_id = n.next_id,
        occurrence_key = coalesce(n.next_key, s.occurrence_key),
        key_unit = coalesce(n.next_unit, s.key_unit),
        target_timestamp_utc = coalesce(n.next_due, s.target_timestamp_utc),
        target_timestamp_local = coalesce(n.next_wall, s.target_timestamp_local),
        nominal_local = CASE WHEN n.next_id IS NULL THEN s.nominal_local ELSE n.next_nominal END,
        target_timezone = coalesce(n.next_zone, s.target_timezone),
        policies = coalesce(n.next_policies, s.policies),
        idempotency_key = coalesce(n.next_idempotency_key, s.idempotency_key),
        key_instant = NULL, ready_at = n.next_ready,
        delivery_payload = coalesce(n.next_payload::jsonb, s.delivery_payload),
        user_version = coalesce(n.next_user_version, s.user_version),
        lane = coalesce(n.next_lane, s.lane),
        last_error = NULL, retry_count = 0, claim_count = 0, crash_count = 0, version = 1,
        created_at = @now::timestamptz, updated_at = @now::timestamptz
    FROM n
    JOIN was ON was.id = n.series_id
    WHERE s.ctid = was.place
        AND s.event_id = n.id
        AND s.version = n.version
        AND (n.current_user_version IS NULL OR s.current_user_version = n.current_user_version)
    RETURNING n.*, was.name, was.retry_count, was.claim_count, :was.kept, coalesce(n.next_lane, was.lane) AS queued_lane
), kept AS (
    INSERT INTO :"schema".history (id, status, lease_token, executed_at, failure_reason, retry_count, claim_count, version,
        updated_at, series_name, :kept)
    SELECT id, coalesce(status, 'COMPLETED'), token, executed_at, failure_reason, retry_count + coalesce(retries, 0), claim_count + 1,
        version + 2, @now::timestamptz, name, :kept
    FROM ended
), queued AS (
    INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from, lane, consulted)
    SELECT coalesce(ended.next_ready, ended.next_due), ended.next_id, ended.series_id, ended.event_type,
        CASE WHEN ended.next_ready IS NOT NULL THEN ended.next_due END, ended.queued_lane, ended.next_consulted
    FROM ended
    WHERE ended.next_id IS NOT NULL
), named AS (
    INSERT INTO :"schema".keys (idempotency_key)
    SELECT ended.next_idempotency_key
    FROM ended
    WHERE ended.next_id IS NOT NULL
), counted AS (
    INSERT INTO :"schema".due_changes (timezone, quarter, event_type, n)
    SELECT s.target_timezone, :quarter_of_s, s.event_type, count(*)
    FROM (
        SELECT ended.event_type, ended.next_due AS target_timestamp_utc, coalesce(ended.next_zone, ended.target_timezone) AS target_timezone
        FROM ended
        WHERE ended.next_id IS NOT NULL
    ) s
    GROUP BY 1, 2, 3
), spent AS (
    DELETE FROM :"schema".leases
    WHERE token IN (
        SELECT l.token
        FROM :"schema".leases l
        JOIN (SELECT ended.token, count(*) AS here FROM ended GROUP BY ended.token) e ON e.token = l.token
        WHERE pg_catalog.cardinality(l.series_ids) = e.here
        FOR UPDATE OF l SKIP LOCKED
    )
)
SELECT ended.id FROM ended
