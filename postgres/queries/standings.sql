-- What users have of one type of event: the key of each open event, and the greatest key that the unnamed series has used up, if it
-- has no open event. Named series without an open event are left out: see spent_keys.sql.
--   @ids uuid[] · @type text
-- Returns the user, whether the event is open, and the key, in the order of keys.
SELECT x.user_id, x.open, x.key
FROM (
    SELECT s.user_id, true AS open, s.occurrence_key AS key
    FROM :"schema".series s
    WHERE s.open_user_id = ANY (@ids::uuid[])
        AND s.event_type = @type
        AND s.requeued_from IS NULL
    UNION ALL
    SELECT s.user_id, false, s.used_key
    FROM :"schema".series s
    WHERE s.user_id = ANY (@ids::uuid[])
        AND s.event_type = @type
        AND s.name = ''
        AND s.open_user_id IS NULL
        AND s.used_key <> ''
) x
ORDER BY x.user_id, x.key
