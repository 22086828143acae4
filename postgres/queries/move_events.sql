-- Give pending events another target. Parallel arrays, one element per event:
--   @ids uuid[] · @versions integer[] (the versions after) · @names text[] · @detached text[] (of the series)
--   @due timestamptz[] · @ready timestamptz[] (NULL if it is @due) · @wall timestamp[] · @nominal timestamp[] (NULL if it is @wall) · @zones text[]
--   @policies text[] · @payloads text[] (JSON) · @user_versions integer[] · @current integer[] (the version that the transaction gives the user
--   afterwards; NULL: none) · @lanes text[] · @consulted text[] (NULL: nothing)
-- Returns the events that were at the version before, and PENDING, as they are now, in no particular order. The idempotency key stays. The transaction has locked
-- the series, and has checked that the events were never claimed. An edit undoes the transaction when an event is missing.
-- The CTE todo is joined before the series are. The planner expects few rows, and would compare each series with each event.
WITH n AS MATERIALIZED (
    SELECT *
    FROM unnest(
        @ids::uuid[], @versions::integer[], @due::timestamptz[], @ready::timestamptz[], @wall::timestamp[], @nominal::timestamp[],
        @zones::text[], @policies::text[], @payloads::text[], @user_versions::integer[], @current::integer[], @names::text[], @detached::text[],
        @lanes::text[], @consulted::text[]
    ) AS n (id, version, due, ready, wall, nominal, zone, policies, payload, user_version, current, name, detached, lane, consulted)
), dequeued AS (
    DELETE FROM :"schema".queue q
    WHERE q.event_id = ANY (ARRAY (SELECT n.id FROM n))
    RETURNING q.series_id, q.event_id, least(q.available_at, now()) AS ready_at
), todo AS MATERIALIZED (
    SELECT dequeued.series_id, dequeued.ready_at, n.*
    FROM dequeued
    JOIN n ON n.id = dequeued.event_id
), was AS MATERIALIZED (
    SELECT s.id, s.event_type, s.target_timezone, s.target_timestamp_utc
    FROM todo
    JOIN :"schema".series s ON s.id = todo.series_id
), moved AS (
    UPDATE :"schema".series s
    SET target_timestamp_utc = n.due, target_timestamp_local = n.wall, nominal_local = n.nominal, target_timezone = n.zone,
        key_instant = coalesce(s.key_instant, s.target_timestamp_utc),
        ready_at = greatest(n.ready, CASE WHEN n.due < n.ready_at THEN n.ready_at END),
        policies = n.policies, delivery_payload = n.payload::jsonb, user_version = n.user_version, lane = n.lane,
        current_user_version = coalesce(n.current, s.current_user_version),
        version = s.version + 1, updated_at = clock_timestamp()
    FROM todo n
    WHERE s.id = n.series_id AND s.event_id = n.id AND s.version = n.version - 1
        AND s.name = n.name AND s.detached = n.detached
    RETURNING s.*, n.consulted
), counted AS (
    INSERT INTO :"schema".due_changes (timezone, quarter, event_type, n)
    SELECT s.target_timezone, :quarter_of_s, s.event_type, sum(s.n)
    FROM (
        SELECT moved.target_timezone, moved.target_timestamp_utc, moved.event_type, 1 AS n FROM moved
        UNION ALL
        SELECT was.target_timezone, was.target_timestamp_utc, was.event_type, -1
        FROM moved
        JOIN was ON was.id = moved.id
    ) s
    GROUP BY 1, 2, 3
    HAVING sum(s.n) <> 0::bigint
), queued AS (
    INSERT INTO :"schema".queue (available_at, event_id, series_id, event_type, delayed_from, lane, consulted)
    SELECT coalesce(moved.ready_at, moved.target_timestamp_utc), moved.event_id, moved.id, moved.event_type,
        CASE WHEN moved.ready_at IS NOT NULL THEN moved.target_timestamp_utc END, moved.lane, moved.consulted
    FROM moved
)
SELECT :queued_event
FROM moved s
CROSS JOIN LATERAL (SELECT coalesce(s.ready_at, s.target_timestamp_utc) AS available_at, s.consulted) q
