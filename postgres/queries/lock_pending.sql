-- Lock a user's events that were never claimed, in the order of their ids. A claim in progress is waited for, and its
-- rows drop out when the condition is checked again.
--   @id uuid
SELECT :event
FROM :"schema".events e
WHERE e.user_id = @id
    AND e.status = 'PENDING'
    AND e.claim_count = 0
ORDER BY e.id
FOR UPDATE
