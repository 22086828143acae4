-- What users have of one type of event.
--   @ids uuid[] · @type text
-- Returns for each series the key of its open event, and otherwise the greatest key that it has used up, in the order of keys.
SELECT s.user_id, s.event_id IS NOT NULL AS open, key.of
FROM :"schema".series s
CROSS JOIN LATERAL (SELECT CASE WHEN s.event_id IS NOT NULL THEN s.occurrence_key ELSE s.used_key END) AS key (of)
WHERE s.user_id = ANY (@ids::uuid[])
    AND s.event_type = @type
    AND key.of <> ''
ORDER BY s.user_id, key.of
