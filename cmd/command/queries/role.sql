-- What this role may do, by the parts for which docs/roles.sql has rights. A right on some column counts as the right.
--   @schema text
-- Returns each part, whether the role has what marks it, and what of its rights it lacks.
WITH needs (part, relation, privileges, mark) AS (
    VALUES
        ('worker', 'users', ARRAY['SELECT', 'UPDATE', 'DELETE'], NULL),
        ('worker', 'series', ARRAY['SELECT', 'INSERT', 'UPDATE'], NULL),
        ('worker', 'queue', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'], NULL),
        ('worker', 'history', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'], NULL),
        ('worker', 'keys', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'], NULL),
        ('worker', 'pruning', ARRAY['SELECT', 'UPDATE'], NULL),
        ('worker', 'leases', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'], 'INSERT'),
        ('worker', 'zone_rules', ARRAY['SELECT', 'INSERT', 'UPDATE'], NULL),
        ('worker', 'zone_marks', ARRAY['SELECT', 'INSERT', 'DELETE'], NULL),
        ('worker', 'unplanned', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'], NULL),
        ('worker', 'pauses', ARRAY['SELECT'], NULL),
        ('worker', 'settings', ARRAY['SELECT', 'INSERT', 'UPDATE'], NULL),
        ('api', 'users', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'], 'INSERT'),
        ('api', 'series', ARRAY['SELECT', 'INSERT', 'UPDATE'], NULL),
        ('api', 'queue', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'], NULL),
        ('api', 'history', ARRAY['INSERT'], NULL),
        ('api', 'unplanned', ARRAY['SELECT', 'INSERT', 'UPDATE'], NULL),
        ('api', 'keys', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'], NULL),
        ('api', 'pruning', ARRAY['SELECT'], NULL),
        ('api', 'leases', ARRAY['SELECT'], NULL),
        ('api', 'events', ARRAY['SELECT'], NULL),
        ('api', 'zone_rules', ARRAY['SELECT'], NULL),
        ('api', 'settings', ARRAY['SELECT'], NULL),
        ('api', 'zone_marks', ARRAY['SELECT', 'INSERT'], NULL),
        ('relay', 'outbox', ARRAY['SELECT', 'DELETE'], 'DELETE'),
        ('relay', 'outbox_consumers', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'], NULL),
        ('reader', 'events', ARRAY['SELECT'], 'SELECT'),
        ('reader', 'queue', ARRAY['SELECT'], NULL),
        ('reader', 'leases', ARRAY['SELECT'], NULL)
), rights AS (
    SELECT n.part, n.relation, p.privilege, p.privilege = n.mark AS marks,
        coalesce(CASE p.privilege WHEN 'DELETE' THEN has_table_privilege(c.oid, 'DELETE'::text) ELSE has_any_column_privilege(c.oid, p.privilege) END, false) AS held
    FROM needs n
    CROSS JOIN LATERAL pg_catalog.unnest(n.privileges) AS p (privilege)
    LEFT JOIN pg_catalog.pg_class c ON c.relname = n.relation
        AND c.relnamespace = (SELECT s.oid FROM pg_catalog.pg_namespace s WHERE s.nspname = @schema::text)
    UNION ALL
    SELECT 'owner', c.relname::text, 'ownership', true, pg_has_role(c.relowner, 'USAGE'::text)
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace
    WHERE s.nspname = @schema::text AND c.relkind IN ('r', 'v')
)
SELECT part, coalesce(bool_or(held) FILTER (WHERE marks), false),
    coalesce(pg_catalog.array_agg(privilege || CASE privilege WHEN 'ownership' THEN ' of ' ELSE ' on ' END || relation ORDER BY relation, privilege) FILTER (WHERE NOT held), '{}')
FROM rights
GROUP BY part
ORDER BY pg_catalog.array_position(ARRAY['owner', 'worker', 'api', 'relay', 'reader'], part)
