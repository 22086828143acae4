-- Lock a user's open series in order of id, to change the user's events. Until the transaction ends, none of these events is
-- settled or released. Series without an open event are not examined.
--   @id uuid
-- Returns the ids of their open events.
SELECT s.event_id
FROM :"schema".series s
WHERE s.open_user_id = @id
ORDER BY s.id
FOR UPDATE
