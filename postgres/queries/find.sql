-- Find events, a page at a time, in the order of their ids. :pending, :processing and :ended are a specification rendered as a
-- condition on the events of that status.
--   @after uuid · @limit integer · the specification's own
SELECT :event
FROM (
    (
        SELECT *
        FROM :"schema".pending_events e
        WHERE :pending
            AND e.id > @after
        ORDER BY e.id
        LIMIT @limit
    )
    UNION ALL
    (
        SELECT *
        FROM :"schema".processing_events e
        WHERE :processing
            AND e.id > @after
    )
    UNION ALL
    (
        SELECT *
        FROM :"schema".ended_events e
        WHERE :ended
            AND e.id > @after
        ORDER BY e.id
        LIMIT @limit
    )
) e
ORDER BY e.id
LIMIT @limit
