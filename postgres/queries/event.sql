-- Find an event.
--   @id uuid
SELECT :event
FROM :"schema".events e
WHERE e.id = @id
