-- A user's open events, in the order of their ids.
--   @id uuid
SELECT s.event_id
FROM :"schema".series s
WHERE s.user_id = @id
    AND s.event_id IS NOT NULL
ORDER BY s.event_id
