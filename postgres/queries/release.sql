-- Release events. The transaction has locked their series. The events of a deleted user end instead. No event is available before
-- its target, even if the clock was set back since the claim. An event that was claimed ahead of its target and is not due yet was
-- not begun, so no attempt is counted. A row that another program has put into the queue for the event is replaced: see claim.sql.
--   @series bigint[] · @tokens uuid[] · @ahead timestamptz[] · @alone uuid[] (parallel)
--   @ahead: since when the lease may hold events that are not due, or NULL. @alone: the event that the holder tried alone, or NULL.
--   @crashes integer: what to add to crash_count. · @shared integer: from that count on, it is added only for an event in @alone.
--   @reason text (why the events are released) · @deleted text (why events of a deleted user end)
-- Returns the ids of the events that were released, and of those that ended.
WITH held AS MATERIALIZED (
    SELECT s.*, n.token, coalesce(n.alone = s.event_id, false) OR s.crash_count < @shared::integer AS counts, u.deleted_at IS NOT NULL AS over,
        CASE WHEN s.claim_count = 0 AND clock_timestamp() >= n.ahead_since
            AND clock_timestamp() < greatest(s.target_timestamp_utc, s.ready_at) THEN 0 ELSE 1 END AS begun
    FROM unnest(@series::bigint[], @tokens::uuid[], @ahead::timestamptz[], @alone::uuid[]) AS n (id, token, ahead_since, alone)
    JOIN :"schema".series s ON s.id = n.id
    JOIN :"schema".users u ON u.id = s.user_id
), changed AS (
    UPDATE :"schema".series s
    SET event_id = CASE WHEN NOT held.over THEN s.event_id END,
        used_key = CASE WHEN held.over THEN s.occurrence_key ELSE s.used_key END,
        used_unit = CASE WHEN held.over THEN s.key_unit ELSE s.used_unit END,
        used_nominal = CASE WHEN held.over THEN coalesce(s.nominal_local, s.target_timestamp_local) ELSE s.used_nominal END,
        -- Nothing is planned for a deleted user any more, so the target is as good as the present time.
        used_local = CASE WHEN held.over THEN s.target_timestamp_local ELSE s.used_local END,
        used_others = CASE WHEN held.over THEN :used_others ELSE s.used_others END,
        last_error = CASE WHEN held.begun = 1 THEN @reason::text ELSE s.last_error END,
        claim_count = s.claim_count + held.begun,
        crash_count = s.crash_count + CASE WHEN held.counts THEN @crashes::integer * held.begun ELSE 0 END,
        version = s.version + 2, updated_at = clock_timestamp()
    FROM held
    WHERE s.id = held.id
), dequeued AS (
    DELETE FROM :"schema".queue q
    WHERE q.event_id = ANY (ARRAY (SELECT held.event_id FROM held))
    RETURNING q.event_id
), queued AS (
    INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from, retry_count, lane)
    SELECT back.available_at, back.event_id, back.id, back.event_type,
        CASE WHEN back.available_at <> back.target_timestamp_utc THEN back.target_timestamp_utc END,
        nullif(back.retry_count, 0), back.lane
    FROM (
        SELECT held.*, greatest(clock_timestamp(), held.target_timestamp_utc, held.ready_at) AS available_at
        FROM held
        WHERE NOT held.over
    ) back
    WHERE (SELECT count(*) FROM dequeued) >= 0 -- so that the rows are deleted first
), ended AS (
    INSERT INTO :"schema".history (id, status, lease_token, failure_reason, retry_count, claim_count, version, updated_at,
        series_name, :kept)
    SELECT event_id, 'FAILED', nullif(token, '00000000-0000-0000-0000-000000000000'::uuid), @deleted::text, retry_count + 1,
        claim_count + 1, version + 2, clock_timestamp(), name, :kept
    FROM held
    WHERE over
)
SELECT held.event_id FROM held
