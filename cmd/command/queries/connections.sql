-- How many connections there are, and may be: of the server but for superusers, of this database, and of this role. -1 is no limit.
SELECT
    (SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE a.datid IS NOT NULL AND coalesce(a.backend_type, 'client backend') = 'client backend'),
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int,
    (SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE a.datid = d.oid),
    d.datconnlimit,
    (SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE a.usesysid = r.oid),
    r.rolconnlimit
FROM pg_catalog.pg_database d, pg_catalog.pg_roles r
WHERE d.datname = current_database() AND r.rolname = session_user
