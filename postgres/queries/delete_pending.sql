-- Delete what a user is still owed, of events that the transaction has locked.
--   @id uuid
DELETE FROM :"schema".events e
WHERE e.user_id = @id
    AND e.status = 'PENDING'
