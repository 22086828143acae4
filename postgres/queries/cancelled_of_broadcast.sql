-- Find the next events of a broadcast that a stop has cancelled, in the order of their ids.
--   @name text · @lane text · @reason text (how the reason begins) · @limit bigint
-- Returns their ids, and whether the user is neither deleted nor locked to be deleted. Keeps the users from being deleted, and waits for no lock.
SELECT c.id, u.id IS NOT NULL
FROM (
    SELECT h.id, h.user_id
    FROM :"schema".history h
    WHERE h.lane = @lane::text AND h.origin IN ('scheduled', 'requeued') AND h.lane <> '' AND h.status = 'CANCELLED'
        AND h.id > (SELECT b.requeued FROM :"schema".broadcasts b WHERE b.name = @name::text)
        AND starts_with(h.failure_reason, @reason::text)
    ORDER BY h.id
    LIMIT @limit::bigint
) c
LEFT JOIN LATERAL (
    SELECT o.id
    FROM :"schema".users o
    WHERE o.id = c.user_id AND o.deleted_at IS NULL
    FOR KEY SHARE SKIP LOCKED
) u ON true
ORDER BY c.id
