-- The trail of an event, in order.
--   @id uuid
SELECT a.at, a.kind, a.version, coalesce(a.detail, ''), a.actor
FROM :"schema".audit a
WHERE a.event_id = @id
ORDER BY a.id
