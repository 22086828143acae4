-- Lock an event for a change.
--   @id uuid
SELECT :event
FROM :"schema".events e
WHERE e.id = @id
FOR UPDATE
