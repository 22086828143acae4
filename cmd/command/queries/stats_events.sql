-- Every event, by type and status. It reads all of the queue and of the history.
-- Returns type, status, number, and that it is no estimate.
SELECT e.event_type, e.status, e.n, false
FROM (
    SELECT q.event_type, 'PENDING' AS status, count(*) AS n, 1 AS place FROM :"schema".queue q GROUP BY q.event_type
    UNION ALL
    SELECT p.event_type, 'PROCESSING', count(*), 2 FROM :"schema".processing_events p GROUP BY p.event_type
    UNION ALL
    SELECT h.event_type, h.status, count(*), CASE h.status WHEN 'COMPLETED' THEN 3 WHEN 'FAILED' THEN 4 ELSE 5 END
    FROM :"schema".ended_events h
    GROUP BY h.event_type, h.status
) e
ORDER BY e.event_type, e.place
