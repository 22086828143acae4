-- The types of handlers that programs have run with, of broadcasts, of events that are pending, in flight or left to another program,
-- and of the events that ended last.
-- The statement reads only what the role of the API may read.
--   @most integer  how many events are read at most in flight, left to another program, and ended
-- returns the types, in order
--
-- Pending types take one look into queue_due each, however long the queue is.
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
    SELECT pg_catalog.substr(s.name, 9) FROM :"schema".settings s WHERE s.name LIKE 'handler %' AND pg_catalog.octet_length(s.name) < 50 -- longer names are hashes
    UNION
    SELECT b.event_type FROM :"schema".broadcasts b
    UNION
    (SELECT e.event_type FROM :"schema".processing_events e LIMIT @most)
    UNION
    (SELECT u.event_type FROM :"schema".unplanned u LIMIT @most)
    UNION
    (SELECT h.event_type FROM :"schema".ended_events h ORDER BY h.id DESC LIMIT @most)
) k
ORDER BY k.event_type COLLATE "C"
