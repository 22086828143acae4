-- Count the pending events that can be claimed.
--   @at timestamptz · @limit integer (the most events to count) · @delayed integer (the most delayed events to read)
-- Returns how many there are up to the limit, since when the first of them has been available, how many events all leases list, how many
-- of the delayed events were due and are not available yet, and how many delayed events were read.
-- Each lane of a type has its own range of the index, which is read on its own.
WITH ranges AS MATERIALIZED (
    SELECT t.name, of_type.lane
    FROM pg_catalog.unnest(:queued_types) AS t (name)
    CROSS JOIN LATERAL pg_catalog.unnest(:lanes_of_t) AS of_type (lane)
), delayed AS MATERIALIZED (
    SELECT q.available_at
    FROM :"schema".queue q
    WHERE q.delayed_from < @at
    ORDER BY q.delayed_from
    LIMIT @delayed
)
SELECT
    (
        SELECT count(*)
        FROM (
            SELECT FROM ranges t
            CROSS JOIN LATERAL (
                SELECT FROM :"schema".queue q
                WHERE q.event_type = t.name AND q.lane = t.lane AND q.available_at <= @at
                ORDER BY q.available_at, q.event_id
                LIMIT @limit
            ) q
            LIMIT @limit
        ) due
    ),
    (
        SELECT min(q.available_at)
        FROM ranges t
        CROSS JOIN LATERAL (
            SELECT q.available_at
            FROM :"schema".queue q
            WHERE q.event_type = t.name AND q.lane = t.lane AND q.available_at <= @at
            ORDER BY q.available_at, q.event_id
            LIMIT 1
        ) q
    ),
    (SELECT coalesce(sum(pg_catalog.cardinality(l.event_ids)), 0)::bigint FROM :"schema".leases l),
    (SELECT count(*) FROM delayed d WHERE d.available_at > @at),
    (SELECT count(*) FROM delayed)
