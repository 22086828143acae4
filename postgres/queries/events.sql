-- Find events by their ids, in no particular order.
--   @ids uuid[]
SELECT :event
FROM :"schema".events e
WHERE e.id = ANY (@ids::uuid[])
