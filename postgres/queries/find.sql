-- Find events, a page at a time, in the order of their ids, or in the reverse order.
--   @after uuid · @limit integer · the parameters of the specification
-- :beyond and :direction say the order: > and ASC, or < and DESC.
-- :pending, :processing and :ended are a specification rendered as a condition on the events of that status. If few events lie in
-- the index ranges of the specification, :few_pending is an array of their ids and :few_ended is true. Then the ended events are
-- read and sorted. The pending events are looked up in the order of their ids until the page is full. Their ids are sorted before,
-- or the planner would look all of them up and sort then. OFFSET 0 keeps the planner from reading in the order of ids, past events
-- that do not match, and from reading a whole table for a join. If more events lie in the ranges, the planner may do both. Only one
-- of the two ways is executed.
WITH chosen AS MATERIALIZED (
    SELECT :few_pending AS pending_ids, :few_ended AS few_ended
)
SELECT :event
FROM (
    (
        SELECT e.*
        FROM (
            SELECT DISTINCT n.id
            FROM pg_catalog.unnest((SELECT chosen.pending_ids FROM chosen)) AS n (id)
            WHERE n.id :beyond @after
            ORDER BY n.id :direction
        ) n
        CROSS JOIN LATERAL (SELECT * FROM :"schema".pending_events e WHERE e.id = n.id AND :pending OFFSET 0) e
        ORDER BY n.id :direction
        LIMIT @limit
    )
    UNION ALL
    (
        SELECT *
        FROM :"schema".pending_events e
        WHERE (SELECT chosen.pending_ids IS NULL FROM chosen) AND :pending AND e.id :beyond @after
        ORDER BY e.id :direction
        LIMIT @limit
    )
    UNION ALL
    (SELECT * FROM :"schema".processing_events e WHERE :processing AND e.id :beyond @after)
    UNION ALL
    (
        SELECT *
        FROM (
            SELECT *
            FROM :"schema".ended_events e
            WHERE (SELECT chosen.few_ended FROM chosen) AND :ended AND e.id :beyond @after
            OFFSET 0
        ) e
        ORDER BY e.id :direction
        LIMIT @limit
    )
    UNION ALL
    (
        SELECT *
        FROM :"schema".ended_events e
        WHERE NOT (SELECT chosen.few_ended FROM chosen) AND :ended AND e.id :beyond @after
        ORDER BY e.id :direction
        LIMIT @limit
    )
) e
ORDER BY e.id :direction
LIMIT @limit
