-- Read events that were released, in no particular order. They are PENDING or have ended. The view of all events would also
-- search every lease for them.
--   @ids uuid[]
SELECT :event
FROM :"schema".pending_events e
WHERE e.id = ANY (@ids::uuid[])
UNION ALL
SELECT :event
FROM :"schema".ended_events e
WHERE e.id = ANY (@ids::uuid[])
