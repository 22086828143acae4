-- Lock the series of an open event.
--   @id uuid
-- Returns the series, or no row.
SELECT s.id
FROM :"schema".series s
WHERE s.id IN (
    SELECT q.series_id FROM :"schema".queue q WHERE q.event_id = @id
    UNION ALL
    SELECT held.series_id
    FROM :"schema".leases l
    CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids) AS held (series_id, event_id)
    WHERE held.event_id = @id
)
    AND s.event_id = @id
FOR UPDATE
