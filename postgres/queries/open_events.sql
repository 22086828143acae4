-- A user's open events, in the order of their ids.
--   @id uuid
SELECT s.event_id
FROM :"schema".series s
WHERE s.open_user_id = @id
ORDER BY s.event_id
