-- The trail of an event, or of a user without events, in order.
--   @id uuid
SELECT a.at, a.kind, a.version, coalesce(a.detail, ''), a.actor, coalesce(a.principal, '')
FROM :"schema".audit a
WHERE a.event_id = @id
    OR (a.user_id = @id AND a.event_id IS NULL)
ORDER BY a.id
