-- What has long kept vacuum from removing rows of this database that no transaction sees any more. It reads what the
-- server keeps in memory. Of other roles' sessions only members of pg_read_all_stats see since when: they come by how many
-- transactions have begun since, as do slots and standbys, for which there is no time.
--   @age interval, how long is long · @xids bigint, how many transactions are many
-- Returns the kind, the name, for how many seconds (NULL if unknown) and how many transactions; the oldest first.
SELECT held.kind, held.who, extract(epoch FROM clock_timestamp() - held.since)::float8, held.xids
FROM (
    SELECT 'session', pg_catalog.format('%s of %s%s', a.pid, coalesce(a.usename, '?'), coalesce(nullif(', ' || a.application_name, ', '), '')),
        a.xact_start, greatest(age(a.backend_xid), age(a.backend_xmin))
    FROM pg_catalog.pg_stat_activity a
    WHERE a.datname = current_database()
        AND a.pid <> pg_backend_pid()
        AND coalesce(a.backend_xid, a.backend_xmin) IS NOT NULL
    UNION ALL
    SELECT 'prepared transaction', pg_catalog.format('%s of %s', p.gid, p.owner), p.prepared, age(p.transaction)
    FROM pg_catalog.pg_prepared_xacts p
    WHERE p.database = current_database()
    UNION ALL
    SELECT 'replication slot', s.slot_name::text, NULL, age(s.xmin)
    FROM pg_catalog.pg_replication_slots s
    WHERE s.xmin IS NOT NULL
    UNION ALL
    SELECT 'standby', coalesce(nullif(r.application_name, ''), r.pid::text), NULL, age(r.backend_xmin)
    FROM pg_catalog.pg_stat_replication r
    WHERE r.backend_xmin IS NOT NULL
) AS held (kind, who, since, xids)
WHERE CASE WHEN held.since IS NULL THEN held.xids >= @xids::bigint ELSE held.since < clock_timestamp() - @age::interval END
ORDER BY held.since NULLS LAST, held.xids DESC
LIMIT 5
