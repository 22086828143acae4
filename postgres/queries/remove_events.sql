-- Delete pending events. The transaction has locked their series. An edit has checked that the events were never claimed, and undoes
-- the transaction when an event is missing.
--   @ids uuid[] · @versions integer[] (NULL if any version is accepted)
-- Returns the ids of the events that were at that version, and PENDING.
-- The CTE todo is joined before the series are. The planner expects few rows, and would compare each series with each event.
WITH n AS MATERIALIZED (
    SELECT * FROM unnest(@ids::uuid[], @versions::integer[]) AS n (id, version)
), dequeued AS (
    DELETE FROM :"schema".queue q
    WHERE q.event_id = ANY (ARRAY (SELECT n.id FROM n))
    RETURNING q.series_id, q.event_id
), todo AS MATERIALIZED (
    SELECT dequeued.series_id, n.*
    FROM dequeued
    JOIN n ON n.id = dequeued.event_id
), emptied AS (
    UPDATE :"schema".series s
    SET event_id = NULL
    FROM todo n
    WHERE s.id = n.series_id AND s.event_id = n.id AND s.version = coalesce(n.version, s.version)
    RETURNING n.id AS event_id, s.idempotency_key, s.event_type, s.target_timestamp_utc, s.target_timezone
), counted AS (
    INSERT INTO :"schema".due_changes (timezone, quarter, event_type, n)
    SELECT s.target_timezone, :quarter_of_s, s.event_type, -count(*)
    FROM emptied s
    GROUP BY 1, 2, 3
), held AS MATERIALIZED (
    SELECT k.idempotency_key, k.holders
    FROM :"schema".keys k
    WHERE k.idempotency_key IN (SELECT emptied.idempotency_key FROM emptied)
    ORDER BY k.idempotency_key
    FOR UPDATE OF k
), freed AS (
    DELETE FROM :"schema".keys k
    USING held
    WHERE k.idempotency_key = held.idempotency_key AND held.holders = 1
), kept AS (
    UPDATE :"schema".keys k
    SET holders = held.holders - 1
    FROM held
    WHERE k.idempotency_key = held.idempotency_key AND held.holders > 1
)
SELECT emptied.event_id FROM emptied
