-- Cancel pending events. The transaction has locked their series. The caller undoes the transaction when an event is missing.
-- Parallel arrays, one element per event:
--   @ids uuid[] · @versions integer[] (the versions after) · @reasons text[] · @waiting boolean[] (whether the series waits for a
--   program that has the handler) · @ended timestamp[] (what clocks in the user's zone show now)
-- Returns the events that were at the version before and PENDING, as they are now, in no particular order.
-- The CTE todo is joined before the series are. The planner expects few rows, and would compare each series with each event.
WITH n AS MATERIALIZED (
    SELECT *
    FROM unnest(@ids::uuid[], @versions::integer[], @reasons::text[], @waiting::boolean[], @ended::timestamp[])
        AS n (id, version, failure_reason, waiting, ended_local)
), dequeued AS (
    DELETE FROM :"schema".queue q
    WHERE q.event_id = ANY (ARRAY (SELECT n.id FROM n))
    RETURNING q.series_id, q.event_id
), todo AS MATERIALIZED (
    SELECT dequeued.series_id, n.*
    FROM dequeued
    JOIN n ON n.id = dequeued.event_id
), ended AS (
    UPDATE :"schema".series s
    SET event_id = NULL, updated_at = clock_timestamp(),
        used_key = s.occurrence_key, used_unit = s.key_unit, used_local = n.ended_local, used_others = :used_others,
        used_nominal = coalesce(s.nominal_local, s.target_timestamp_local)
    FROM todo n
    WHERE s.id = n.series_id AND s.event_id = n.id AND s.version = n.version - 1
    RETURNING n.*, s.name, s.retry_count, s.claim_count, clock_timestamp() AS ended_at, :kept
), kept AS (
    INSERT INTO :"schema".history (id, status, failure_reason, retry_count, claim_count, version, updated_at, series_name, :kept)
    SELECT id, 'CANCELLED', failure_reason, retry_count, claim_count, version, ended_at, name, :kept
    FROM ended
), left_open AS (
    INSERT INTO :"schema".unplanned (series_id, user_id, event_type, used_unit, used_key)
    SELECT ended.series_id, ended.user_id, ended.event_type, ended.key_unit, ended.occurrence_key
    FROM ended
    WHERE ended.waiting
    ON CONFLICT (series_id) DO UPDATE
    SET used_unit = excluded.used_unit, used_key = excluded.used_key, last_error = NULL, failures = 0, since = now(), retry_at = now()
)
SELECT :event
FROM (
    SELECT ended.*, ended.name AS series_name, 'CANCELLED'::text AS status, ended.ended_at AS updated_at, NULL::timestamptz AS available_at,
        NULL::uuid AS lease_token, NULL::timestamptz AS executed_at, NULL::text AS consulted
    FROM ended
) e
