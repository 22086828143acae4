-- Find keys and triggers that are missing, and tables of which row security hides rows from this role.
--   @schema text · @parts text[] (the keys and triggers, each with its table: series.series_pkey)
-- Returns the schema, what is missing, and the tables.
WITH tables AS MATERIALIZED (
    SELECT c.oid, c.relname::text AS name
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = @schema::text
        AND c.relname::text IN (SELECT pg_catalog.split_part(p.name, '.', 1) FROM pg_catalog.unnest(@parts::text[]) AS p (name))
)
SELECT @schema::text, (
    SELECT pg_catalog.array_agg(p.name ORDER BY p.name COLLATE "C")
    FROM pg_catalog.unnest(@parts::text[]) AS p (name)
    WHERE p.name NOT IN (
        SELECT t.name || '.' || o.conname::text FROM tables t JOIN pg_catalog.pg_constraint o ON o.conrelid = t.oid
        UNION ALL
        SELECT t.name || '.' || g.tgname::text FROM tables t JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid WHERE g.tgenabled <> 'D'
    )
), (
    SELECT pg_catalog.array_agg(t.name ORDER BY t.name COLLATE "C") FROM tables t WHERE pg_catalog.row_security_active(t.oid)
)
