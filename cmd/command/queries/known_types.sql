-- The types of events that the database knows: of what is pending, in flight or left to another program, and of what
-- ended last. They are read where the role of the API may read them.
--   @most integer  the most events that are looked at in flight, left to another program, and ended
-- returns the types, in order
--
-- What is pending is found by one look into queue_due for each type, however long the queue is.
WITH RECURSIVE pending AS (
    (SELECT q.event_type FROM :"schema".queue q ORDER BY q.event_type LIMIT 1)
    UNION ALL
    SELECT (SELECT q.event_type FROM :"schema".queue q WHERE q.event_type > p.event_type ORDER BY q.event_type LIMIT 1)
    FROM pending p
    WHERE p.event_type IS NOT NULL
)
SELECT k.event_type
FROM (
    SELECT p.event_type FROM pending p WHERE p.event_type IS NOT NULL
    UNION
    (SELECT e.event_type FROM :"schema".processing_events e LIMIT @most)
    UNION
    (SELECT u.event_type FROM :"schema".unplanned u LIMIT @most)
    UNION
    (SELECT h.event_type FROM :"schema".ended_events h ORDER BY h.id DESC LIMIT @most)
) k
ORDER BY k.event_type COLLATE "C"
