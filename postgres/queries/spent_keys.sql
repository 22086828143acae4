-- Which of some occurrences are used up in series that have no open event. Parallel arrays, one element per occurrence:
--   @user_ids uuid[] · @types text[] · @names text[] · @detached text[] · @keys text[]
-- Returns the series of each of these occurrences (user, type, name and the column detached), and the greatest key that the series
-- has used up. OFFSET 0 makes the planner look up the series one by one, by their names.
SELECT s.user_id, s.event_type, s.name, s.detached, s.used_key
FROM unnest(@user_ids::uuid[], @types::text[], @names::text[], @detached::text[], @keys::text[])
    AS n (user_id, event_type, name, detached, key)
CROSS JOIN LATERAL (
    SELECT x.user_id, x.event_type, x.name, x.detached, x.used_key, x.open_user_id
    FROM :"schema".series x
    WHERE x.user_id = n.user_id
        AND x.event_type = n.event_type
        AND x.name = n.name
        AND x.detached = n.detached
    OFFSET 0
) s
WHERE s.open_user_id IS NULL
    AND s.used_key >= n.key
