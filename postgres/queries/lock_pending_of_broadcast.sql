-- Lock the series of pending events of a broadcast, in the order of the series.
--   @name text · @ids uuid[]
-- Returns the ids of the events. Waits for no lock: series that another transaction has locked are passed over, and so are other events of the lane.
SELECT s.event_id
FROM :"schema".series s
WHERE s.id = ANY (ARRAY (SELECT q.series_id FROM :"schema".queue q WHERE q.event_id = ANY (@ids::uuid[])))
    AND s.event_id = ANY (@ids::uuid[]) AND s.occurrence_key = @name::text
ORDER BY s.id
FOR NO KEY UPDATE SKIP LOCKED
