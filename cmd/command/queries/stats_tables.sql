-- How large the tables are. Rows are what the server's statistics say; sizes are of files.
--   @schema text
-- Returns name, rows, dead rows, bytes of the table, of its indexes, and when it was vacuumed last.
SELECT c.relname::text, coalesce(s.n_live_tup, 0), coalesce(s.n_dead_tup, 0), pg_table_size(c.oid::regclass), pg_indexes_size(c.oid::regclass),
    greatest(s.last_vacuum, s.last_autovacuum)
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = c.oid
WHERE n.nspname = @schema::text AND c.relkind = 'r'
ORDER BY c.relname
