-- For each of a user's open series (type, name and the column detached), its used keys, and its event if that was ever claimed.
-- Series of requeued events are left out, because a requeued event repeats a key of another series.
--   @id uuid
-- Returns each series that has one of these: whether its event was claimed, the unit, the key and the nominal wall time of the event,
-- and the used keys as text (see usedText in statements.go).
SELECT s.event_type, s.name, s.detached, begun.claimed, s.key_unit, s.occurrence_key,
    coalesce(s.nominal_local, s.target_timestamp_local), :used
FROM :"schema".series s
CROSS JOIN LATERAL (
    SELECT s.claim_count > 0 OR NOT EXISTS (SELECT FROM :"schema".queue q WHERE q.event_id = s.event_id)
) AS begun (claimed)
WHERE s.open_user_id = @id
    AND (begun.claimed OR s.used_key <> '')
    AND s.origin IS DISTINCT FROM 'requeued'
