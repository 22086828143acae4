-- For each of a user's open series (type, name and the column detached), the greatest occurrence key that was ever claimed. Series
-- of requeued events are left out, because a requeued event repeats a key of another series.
--   @id uuid
SELECT s.event_type, s.name, s.detached, used.key
FROM :"schema".series s
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN s.claim_count > 0 OR NOT EXISTS (SELECT FROM :"schema".queue q WHERE q.event_id = s.event_id)
        THEN s.occurrence_key
        ELSE s.used_key
    END
) AS used (key)
WHERE s.open_user_id = @id
    AND used.key <> ''
    AND s.origin IS DISTINCT FROM 'requeued'
