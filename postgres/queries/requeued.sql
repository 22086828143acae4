-- Find which of some events were requeued before: an event that repeats another has a series of its own, which stays.
--   @ids uuid[] · @users uuid[] · @types text[] · @names text[] · @detached text[] (parallel; the last four name the series of a repeat)
-- Returns their ids.
SELECT n.id
FROM unnest(@ids::uuid[], @users::uuid[], @types::text[], @names::text[], @detached::text[]) AS n (id, user_id, event_type, name, detached)
WHERE EXISTS (
    SELECT
    FROM :"schema".series s
    WHERE s.user_id = n.user_id
        AND s.event_type = n.event_type
        AND s.name = n.name
        AND s.detached = n.detached
)
