-- Have what the catalog says come out the same whatever the role, the database or the host have set, until the transaction ends.
--   @schema text
-- Returns whether the role may use the schema, without which the search_path passes over it. One that is not there counts.
SELECT coalesce((SELECT has_schema_privilege(n.oid, 'USAGE') FROM pg_catalog.pg_namespace n WHERE n.nspname = @schema::text), true)
FROM set_config('search_path', quote_ident(@schema::text) || ', pg_temp', true) AS path,
    set_config('datestyle', 'ISO, YMD', true) AS dates,
    set_config('quote_all_identifiers', 'off', true) AS quotes
