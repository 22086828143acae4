-- Read pending events by their ids, in no particular order.
--   @ids uuid[]
SELECT :event
FROM :"schema".pending_events e
WHERE e.id = ANY (@ids::uuid[])
