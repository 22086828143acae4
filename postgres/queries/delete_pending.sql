-- Delete what a user is still owed. A claim in progress is waited for, and its rows drop out.
--   @id uuid
DELETE FROM :"schema".events e
WHERE e.user_id = @id
    AND e.status = 'PENDING'
RETURNING e.id
