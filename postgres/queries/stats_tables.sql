-- Read the clock, and how large the tables are.
--   @schema text
-- Returns a row for each table: the clock, the name, the pages, the rows by the server's statistics (zero if unknown), when the table was
-- last analyzed, and whether this role may read the table itself.
-- The number of rows follows the number of pages, as in the planner, because the statistics are of an earlier moment.
SELECT clock.read, c.relname::text, size.pages,
    CASE WHEN c.reltuples > 0::real AND c.relpages > 0 THEN c.reltuples::float8 / c.relpages::float8 * size.pages::float8 ELSE 0 END,
    greatest(pg_stat_get_last_analyze_time(c.oid), pg_stat_get_last_autoanalyze_time(c.oid)), has_any_column_privilege(c.oid, 'SELECT'::text)
FROM (SELECT clock_timestamp() OFFSET 0) AS clock (read), pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (SELECT pg_relation_size(c.oid::regclass) / current_setting('block_size')::bigint OFFSET 0) AS size (pages)
WHERE n.nspname = @schema::text AND c.relname IN ('users', 'series', 'queue', 'history')
