-- Delete a user's pending events, of series that the transaction has locked. Waits for a claim in progress, whose events are left
-- out.
--   @id uuid
-- Returns how many events were deleted.
WITH dequeued AS (
    DELETE FROM :"schema".queue q
    USING :"schema".series s
    WHERE s.open_user_id = @id
        AND q.event_id = s.event_id
    RETURNING s.id AS series_id, s.idempotency_key
), emptied AS (
    UPDATE :"schema".series s
    SET event_id = NULL
    FROM dequeued
    WHERE s.id = dequeued.series_id
    RETURNING s.event_type, s.target_timestamp_utc, s.target_timezone
), counted AS (
    INSERT INTO :"schema".due_changes (timezone, quarter, event_type, n)
    SELECT s.target_timezone, :quarter_of_s, s.event_type, -count(*)
    FROM emptied s
    GROUP BY 1, 2, 3
), held AS MATERIALIZED (
    SELECT k.idempotency_key, k.holders
    FROM :"schema".keys k
    WHERE k.idempotency_key IN (SELECT dequeued.idempotency_key FROM dequeued)
    ORDER BY k.idempotency_key
    FOR UPDATE OF k
), freed AS (
    DELETE FROM :"schema".keys k
    USING held
    WHERE k.idempotency_key = held.idempotency_key
        AND held.holders = 1
), kept AS (
    UPDATE :"schema".keys k
    SET holders = held.holders - 1
    FROM held
    WHERE k.idempotency_key = held.idempotency_key
        AND held.holders > 1
)
SELECT count(*)
FROM dequeued
