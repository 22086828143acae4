-- Lock a user's series in order, for a change of what they are owed: until the transaction ends, nothing of theirs is settled or
-- given back.
--   @id uuid
-- Returns the ids of their open events.
SELECT s.event_id
FROM :"schema".series s
WHERE s.user_id = @id
ORDER BY s.id
FOR UPDATE
