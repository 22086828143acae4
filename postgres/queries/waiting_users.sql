-- A page of the users who have series of an event type that wait for a program with the handler.
--   @type text · @after uuid · @limit integer
SELECT DISTINCT n.user_id
FROM :"schema".unplanned n
WHERE n.event_type = @type
    AND n.user_id > @after
ORDER BY n.user_id
LIMIT @limit
