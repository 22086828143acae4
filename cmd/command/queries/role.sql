-- What this role may do, by the parts for which docs/roles.sql has rights. A right on some column counts as the right.
--   @schema text
-- Returns each part, whether the role has what marks it, and what of its rights it lacks.
WITH needs (part, relations, privileges, mark) AS (
    VALUES
        ('worker', 'leases', 'SELECT INSERT UPDATE DELETE', 'INSERT'),
        ('worker', 'queue history keys unplanned', 'SELECT INSERT UPDATE DELETE', NULL),
        ('worker', 'series zone_rules calendars quarantine settings', 'SELECT INSERT UPDATE', NULL),
        ('worker', 'users', 'SELECT UPDATE DELETE', NULL),
        ('worker', 'zone_marks', 'SELECT INSERT DELETE', NULL),
        ('worker', 'pruning', 'SELECT UPDATE', NULL),
        ('worker', 'lanes', 'SELECT', NULL),
        ('worker', 'lane_states lane_clock', 'SELECT UPDATE', NULL),
        ('worker', 'visits', 'SELECT INSERT UPDATE DELETE', NULL),
        ('api', 'users', 'SELECT INSERT UPDATE DELETE', 'INSERT'),
        ('api', 'queue keys', 'SELECT INSERT UPDATE DELETE', NULL),
        ('api', 'series unplanned', 'SELECT INSERT UPDATE', NULL),
        ('api', 'zone_marks', 'SELECT INSERT', NULL),
        ('api', 'history', 'INSERT', NULL),
        ('api', 'pruning leases events zone_rules calendars quarantine settings', 'SELECT', NULL),
        ('relay', 'outbox', 'SELECT DELETE', 'DELETE'),
        ('relay', 'outbox_consumers', 'SELECT INSERT UPDATE DELETE', NULL),
        ('reader', 'events', 'SELECT', 'SELECT'),
        ('reader', 'queue leases', 'SELECT', NULL)
), rights AS (
    SELECT n.part, r.relation, p.privilege, p.privilege = n.mark AS marks,
        coalesce(CASE p.privilege WHEN 'DELETE' THEN has_table_privilege(c.oid, 'DELETE'::text)
            ELSE has_any_column_privilege(c.oid, p.privilege) END, false) AS held
    FROM needs n
    CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.string_to_array(n.relations, ' ')) AS r (relation)
    CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.string_to_array(n.privileges, ' ')) AS p (privilege)
    LEFT JOIN pg_catalog.pg_class c ON c.relname = r.relation
        AND c.relnamespace = (SELECT s.oid FROM pg_catalog.pg_namespace s WHERE s.nspname = @schema::text)
    UNION ALL
    SELECT 'worker', f.name, 'EXECUTE', false, coalesce((
        SELECT bool_or(has_function_privilege(p.oid, 'EXECUTE'::text))
        FROM pg_catalog.pg_proc p
        JOIN pg_catalog.pg_namespace s ON s.oid = p.pronamespace
        WHERE s.nspname = @schema::text AND p.proname = f.name
    ), false)
    FROM pg_catalog.unnest(ARRAY['claim_lanes', 'lane_room', 'step_lane']) AS f (name)
    UNION ALL
    SELECT 'owner', c.relname::text, 'ownership', true, pg_has_role(c.relowner, 'USAGE'::text)
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
    WHERE s.nspname = @schema::text AND c.relkind IN ('r', 'v')
)
SELECT part, coalesce(bool_or(held) FILTER (WHERE marks), false),
    coalesce(pg_catalog.array_agg(privilege || CASE privilege WHEN 'ownership' THEN ' of ' ELSE ' on ' END || relation
        ORDER BY relation, privilege) FILTER (WHERE NOT held), '{}')
FROM rights
GROUP BY part
ORDER BY pg_catalog.array_position(ARRAY['owner', 'worker', 'api', 'relay', 'reader'], part)
