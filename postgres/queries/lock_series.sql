-- Lock a user's open series in order of id, for a change of what they are owed: until the transaction ends, none of their events is
-- settled or released. Series without an open event are not looked at.
--   @id uuid
-- Returns the ids of their open events.
SELECT s.event_id
FROM :"schema".series s
WHERE s.open_user_id = @id
ORDER BY s.id
FOR UPDATE
