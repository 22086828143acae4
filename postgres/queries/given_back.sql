-- Read events that were given back, in no particular order: they are PENDING or have ended. To read the view of all events would be to
-- look for them in every lease too.
--   @ids uuid[]
SELECT :event
FROM :"schema".pending_events e
WHERE e.id = ANY (@ids::uuid[])
UNION ALL
SELECT :event
FROM :"schema".ended_events e
WHERE e.id = ANY (@ids::uuid[])
