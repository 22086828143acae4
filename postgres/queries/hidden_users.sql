-- Some of the users who are deleted, not removed yet, and without events in flight. They are chosen at random, so that users who
-- cannot be removed do not keep others from being removed, however many there are. So is their order, because a slow removal ends a
-- sweep. The statement locks nothing.
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
