-- A user's events that are being delivered.
--   @id uuid
SELECT e.id
FROM :"schema".events e
WHERE e.user_id = @id
    AND e.status = 'PROCESSING'
ORDER BY e.id
