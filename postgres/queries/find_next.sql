-- Find PENDING events, a page at a time, in the order in which they can be claimed.
--   @at timestamptz · @after uuid · @limit integer · the parameters of the specification
-- :pending is a specification rendered as a condition. If few events lie in the index ranges of the specification, :few_pending is an
-- array of their ids. Then these events are looked up and sorted. Otherwise the queue is read in its order until the page is full, for
-- each lane of each of the types in :waiting_types, because its index begins with type and lane. OFFSET 0 keeps the planner from reading in another order, and
-- from reading a whole table for a join. Only one of the two ways is executed.
WITH chosen AS MATERIALIZED (
    SELECT :few_pending AS pending_ids
)
SELECT :event
FROM (
    (
        SELECT e.*
        FROM (SELECT DISTINCT n.id FROM pg_catalog.unnest((SELECT chosen.pending_ids FROM chosen)) AS n (id)) n
        CROSS JOIN LATERAL (SELECT * FROM :"schema".pending_events e WHERE e.id = n.id AND :pending OFFSET 0) e
        WHERE (e.available_at, e.id) > (@at::timestamptz, @after::uuid)
        ORDER BY e.available_at, e.id
        LIMIT @limit
    )
    UNION ALL
    (
        SELECT e.*
        FROM pg_catalog.unnest(CASE WHEN (SELECT chosen.pending_ids IS NULL FROM chosen) THEN :waiting_types END) AS t (name)
        CROSS JOIN LATERAL pg_catalog.unnest(:lanes_of_t) AS of_type (lane)
        CROSS JOIN LATERAL (
            SELECT e.*
            FROM (
                SELECT q.available_at, q.event_id
                FROM :"schema".queue q
                WHERE q.event_type = t.name AND q.lane = of_type.lane
                    AND (q.available_at, q.event_id) > (@at::timestamptz, @after::uuid)
                ORDER BY q.available_at, q.event_id
                OFFSET 0
            ) q
            CROSS JOIN LATERAL (SELECT * FROM :"schema".pending_events e WHERE e.id = q.event_id AND :pending OFFSET 0) e
            ORDER BY q.available_at, q.event_id
            LIMIT @limit
        ) e
        ORDER BY e.available_at, e.id
        LIMIT @limit
    )
) e
ORDER BY e.available_at, e.id
LIMIT @limit
