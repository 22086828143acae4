-- Take an event out of the queue. A claim in progress is waited for.
--   @id uuid
-- Returns its id, or no row when it was claimed.
DELETE FROM :"schema".queue q
WHERE q.event_id = @id
RETURNING q.event_id
