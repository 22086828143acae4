-- A user's open events that were claimed before. No locks: they keep their target whatever happens.
--   @id uuid
SELECT :event
FROM :"schema".events e
WHERE e.user_id = @id
    AND e.status IN ('PENDING', 'PROCESSING')
    AND e.claim_count > 0
ORDER BY e.id
