-- Lock a user's open events, claimed or not, in the order of their ids. Who claims, releases or takes back one of them is waited
-- for, and what came of it is returned.
--   @id uuid
SELECT e.id, e.status
FROM :"schema".events e
WHERE e.user_id = @id
    AND e.status IN ('PENDING', 'PROCESSING')
ORDER BY e.id
FOR UPDATE
