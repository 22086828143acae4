-- The greatest occurrence key of each type that a user was ever claimed for. The column compares byte by byte.
--   @id uuid
SELECT e.event_type, max(e.occurrence_key)
FROM :"schema".events e
WHERE e.user_id = @id
    AND e.claim_count > 0
GROUP BY e.event_type
