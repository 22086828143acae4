-- Choose users who are deleted, not removed yet, and without events in flight. The choice is random: otherwise many users who cannot
-- be removed would keep others from being removed. The order is random too, because a slow removal ends a sweep.
-- Locks nothing.
--   @limit integer
WITH chosen AS MATERIALIZED (
    SELECT u.id
    FROM :"schema".users u
    WHERE u.deleted_at IS NOT NULL
    ORDER BY random()
    LIMIT @limit::integer
)
SELECT chosen.id
FROM chosen
WHERE NOT EXISTS (SELECT FROM :"schema".series s WHERE s.open_user_id = chosen.id)
ORDER BY random()
