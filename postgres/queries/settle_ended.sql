-- End events, and put their successors in their place. Parallel arrays, one element per event:
--   @series bigint[] · @ids uuid[] · @versions integer[]: the fence, with the lease, which was read before; an event that is not as it was
--   when it was claimed is left alone · @users integer[]: the version that its user must still be at, NULL where it does not matter
--   @tokens uuid[] · @statuses text[] · @executed timestamptz[] · @failures text[] · @retries integer[]
--   of the successor, where there is one: @next_ids uuid[] · @keys text[] · @due timestamptz[] · @wall timestamp[] · @zones text[]
--   @policies text[] · @idempotency_keys text[] · @payloads text[] (JSON) · @user_versions integer[]
--   @now timestamptz
-- The statement passes the series once more as an array of unknown length, which keeps the planner from reading the whole table.
-- "was" has each row as it was before; it goes to the history. The row is found again by its ctid: a row that was changed
-- meanwhile has another ctid, and is left alone. A key that belongs to another event is an error (keys_pkey). A lease ends here
-- if all its events end here, so that end_leases need not examine it.
-- Locks the series FOR NO KEY UPDATE. A series that another transaction has locked is left alone: this statement waits for no
-- series.
-- Returns the ids of the events that ended.
WITH n AS MATERIALIZED (
    SELECT *
    FROM unnest(
        @series::bigint[], @ids::uuid[], @versions::integer[], @users::integer[], @tokens::uuid[], @statuses::text[],
        @executed::timestamptz[], @failures::text[], @retries::integer[], @next_ids::uuid[], @keys::text[], @due::timestamptz[],
        @wall::timestamp[], @zones::text[], @policies::text[], @idempotency_keys::text[], @payloads::text[], @user_versions::integer[]
    ) AS n (
        series_id, id, version, current_user_version, token, status, executed_at, failure_reason, retries, next_id, occurrence_key, due,
        wall, zone, policies, idempotency_key, payload, user_version)
), was AS MATERIALIZED (
    SELECT s.ctid AS place, s.*
    FROM :"schema".series s
    WHERE s.id = ANY (ARRAY (SELECT unnest(@series::bigint[])))
    FOR NO KEY UPDATE SKIP LOCKED
), ended AS (
    UPDATE :"schema".series s
    SET used_key = was.occurrence_key,
        event_id = n.next_id,
        occurrence_key = coalesce(n.occurrence_key, s.occurrence_key),
        target_timestamp_utc = coalesce(n.due, s.target_timestamp_utc),
        target_timestamp_local = coalesce(n.wall, s.target_timestamp_local),
        target_timezone = coalesce(n.zone, s.target_timezone),
        policies = coalesce(n.policies, s.policies),
        idempotency_key = coalesce(n.idempotency_key, s.idempotency_key),
        delivery_payload = coalesce(n.payload::jsonb, s.delivery_payload),
        user_version = coalesce(n.user_version, s.user_version),
        last_error = NULL,
        retry_count = 0,
        claim_count = 0,
        crash_count = 0,
        version = 1,
        created_at = @now::timestamptz,
        updated_at = @now::timestamptz
    FROM n
    JOIN was ON was.id = n.series_id
    WHERE s.ctid = was.place
        AND s.event_id = n.id
        AND s.version = n.version
        AND (n.current_user_version IS NULL OR s.current_user_version = n.current_user_version)
    RETURNING
        n.*, was.user_id, was.event_type, was.occurrence_key AS was_key, was.target_timestamp_utc, was.target_timestamp_local,
        was.target_timezone, was.policies AS was_policies, was.idempotency_key AS was_idempotency_key, was.delivery_payload,
        was.user_version AS was_user_version, was.last_error, was.retry_count, was.claim_count, was.crash_count, was.created_at, was.requeued_from
), kept AS (
    INSERT INTO :"schema".history (
        id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local, target_timezone, policies,
        idempotency_key, delivery_payload, user_version, lease_token, executed_at, failure_reason, last_error, retry_count,
        claim_count, crash_count, version, created_at, updated_at, requeued_from)
    SELECT
        id, user_id, event_type, was_key, status, target_timestamp_utc, target_timestamp_local, target_timezone, was_policies,
        was_idempotency_key, delivery_payload, was_user_version, token, executed_at, failure_reason, last_error, retry_count + retries,
        claim_count + 1, crash_count, version + 2, created_at, @now::timestamptz, requeued_from
    FROM ended
), queued AS (
    INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from)
    SELECT ended.due, ended.next_id, ended.series_id, ended.event_type, NULL
    FROM ended
    WHERE ended.next_id IS NOT NULL
), named AS (
    INSERT INTO :"schema".keys (idempotency_key)
    SELECT ended.idempotency_key
    FROM ended
    WHERE ended.next_id IS NOT NULL
), spent AS (
    DELETE FROM :"schema".leases
    WHERE token IN (
        SELECT l.token
        FROM :"schema".leases l
        JOIN (SELECT ended.token, count(*) AS here FROM ended GROUP BY ended.token) e ON e.token = l.token
        WHERE cardinality(l.series_ids) = e.here
        FOR UPDATE OF l SKIP LOCKED
    )
)
SELECT ended.id
FROM ended
