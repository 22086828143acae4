-- Find PENDING events of the users that a specification names, a page at a time, in the order in which they can be claimed.
--   @at timestamptz · @after uuid · @limit integer · the parameters of the specification
-- :pending is the specification rendered as a condition. A user has few events, so they are all read and sorted.
SELECT :event
FROM :"schema".pending_events e
WHERE :pending AND (e.available_at, e.id) > (@at::timestamptz, @after::uuid)
ORDER BY e.available_at, e.id
LIMIT @limit
