-- The open events and used keys of users, for one type: the key of each open event, and the used keys of the single series of the
-- type, if that series has no open event. Other series without an open event are left out: see series_keys.sql.
--   @ids uuid[] · @type text
-- Returns the user, whether the event is open, the series (name and the column detached), the key of the open event, and the used
-- keys as text (see usedText in statements.go). OFFSET 0 makes the planner look up the series user by user; a search by type would
-- read the series of all users.
SELECT s.user_id, true AS open, s.name, s.detached, s.occurrence_key AS key, NULL::text AS used
FROM pg_catalog.unnest(@ids::uuid[]) AS n (id)
CROSS JOIN LATERAL (
    SELECT o.user_id, o.event_type, o.origin, o.name, o.detached, o.occurrence_key
    FROM :"schema".series o
    WHERE o.open_user_id = n.id
    OFFSET 0
) s
WHERE s.event_type = @type AND s.origin IS DISTINCT FROM 'requeued'
UNION ALL
SELECT s.user_id, false, '', '', '', :used
FROM pg_catalog.unnest(@ids::uuid[]) AS n (id)
CROSS JOIN LATERAL (
    SELECT o.user_id, o.open_user_id, o.used_unit, o.used_key, o.used_nominal, o.used_local, o.used_others
    FROM :"schema".series o
    WHERE o.user_id = n.id AND o.event_type = @type AND o.name = '' AND o.detached = ''
    OFFSET 0
) s
WHERE s.open_user_id IS NULL AND s.used_key <> ''
