-- Lock the users of cancelled events FOR SHARE, as lock_users.sql does, in the order of the events.
--   @ids uuid[]
-- Returns the ids of the events whose user is not deleted, and whether the user is locked now. Waits for no lock: users whom another transaction
-- has locked are not.
SELECT c.id, u.id IS NOT NULL
FROM (
    SELECT h.id, h.user_id
    FROM :"schema".history h
    WHERE h.id = ANY (@ids::uuid[]) AND h.status = 'CANCELLED'
        AND EXISTS (SELECT FROM :"schema".users o WHERE o.id = h.user_id AND o.deleted_at IS NULL)
    ORDER BY h.id
) c
LEFT JOIN LATERAL (
    SELECT o.id
    FROM :"schema".users o
    WHERE o.id = c.user_id AND o.deleted_at IS NULL
    FOR SHARE SKIP LOCKED
) u ON true
ORDER BY c.id
