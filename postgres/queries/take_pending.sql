-- Take an event out of the queue. Waits for a claim in progress.
--   @id uuid
-- Returns the event's id, or no row when the event was claimed.
DELETE FROM :"schema".queue q
WHERE q.event_id = @id
RETURNING q.event_id
