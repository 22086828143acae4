-- Find events, a page at a time, in the order of their ids. :where is a specification rendered as a condition.
--   @after uuid · @limit integer · the specification's own
SELECT :event
FROM :"schema".events e
WHERE :where
    AND e.id > @after
ORDER BY e.id
LIMIT @limit
