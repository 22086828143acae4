-- Count the pending events that can be claimed.
--   @at timestamptz · @limit integer (the most events to count)
-- Returns how many there are up to the limit, since when the first of them has been available, and how many events all leases list.
-- Each type has its own range of the index, which is read on its own.
WITH types AS MATERIALIZED (
    SELECT t.name
    FROM unnest(:queued_types) AS t (name)
)
SELECT
    (
        SELECT count(*)
        FROM (
            SELECT
            FROM types t
            CROSS JOIN LATERAL (
                SELECT
                FROM :"schema".queue q
                WHERE q.event_type = t.name
                    AND q.available_at <= @at
                ORDER BY q.available_at, q.event_id
                LIMIT @limit
            ) q
            LIMIT @limit
        ) due
    ),
    (
        SELECT min(q.available_at)
        FROM types t
        CROSS JOIN LATERAL (
            SELECT q.available_at
            FROM :"schema".queue q
            WHERE q.event_type = t.name
                AND q.available_at <= @at
            ORDER BY q.available_at, q.event_id
            LIMIT 1
        ) q
    ),
    (SELECT coalesce(sum(cardinality(l.event_ids)), 0)::bigint FROM :"schema".leases l)
