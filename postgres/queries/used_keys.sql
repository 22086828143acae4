-- The greatest occurrence key of each type and series that a user was ever claimed for. A key names its series before its
-- first slash. The column compares byte by byte.
--   @id uuid
SELECT e.event_type, max(e.occurrence_key)
FROM :"schema".events e
WHERE e.user_id = @id
    AND e.claim_count > 0
GROUP BY e.event_type, CASE WHEN strpos(e.occurrence_key, '/') > 0 THEN split_part(e.occurrence_key, '/', 1) END
ORDER BY 2
