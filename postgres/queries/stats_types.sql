-- Count the pending events of each type, up to a limit.
--   @limit integer
-- Returns the type and the number, for each type that has a pending event. The order makes the planner read the index, and not the whole
-- queue for a rare type.
SELECT t.name, few.n
FROM pg_catalog.unnest(:queued_types) AS t (name)
CROSS JOIN LATERAL (
    SELECT count(*) AS n
    FROM (SELECT FROM :"schema".queue q WHERE q.event_type = t.name ORDER BY q.lane, q.available_at, q.event_id LIMIT @limit) q
) few
