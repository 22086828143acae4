-- Tables of the schema in which PostgreSQL refuses updates and deletions, because a publication publishes these and the table has
-- neither a primary key nor a replica identity.
--   @schema text
-- Returns the publication and the table.
SELECT DISTINCT p.pubname::text, t.tablename::text
FROM pg_catalog.pg_publication p
JOIN pg_catalog.pg_publication_tables t ON t.pubname = p.pubname
JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname
JOIN pg_catalog.pg_class c ON c.relname = t.tablename AND c.relnamespace = n.oid
WHERE t.schemaname = @schema::text
    AND (p.pubupdate OR p.pubdelete)
    AND c.relreplident <> 'f'
    AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_index i
        WHERE i.indrelid = c.oid
            AND (c.relreplident = 'd' AND i.indisprimary OR c.relreplident = 'i' AND i.indisreplident)
    )
ORDER BY 1, 2
