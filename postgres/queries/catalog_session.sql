-- Make the output of catalog.sql independent of the settings of the role, the database and the host, until the transaction ends.
--   @schema text
-- Returns whether the role may use the schema. Without that right, the search_path passes over the schema. A missing schema
-- counts as usable.
SELECT coalesce((SELECT has_schema_privilege(n.oid, 'USAGE') FROM pg_catalog.pg_namespace n WHERE n.nspname = @schema::text), true)
FROM set_config('search_path', quote_ident(@schema::text) || ', pg_temp', true) AS path,
    set_config('datestyle', 'ISO, YMD', true) AS dates,
    set_config('timezone', 'UTC', true) AS zone,
    set_config('quote_all_identifiers', 'off', true) AS quotes,
    set_config('standard_conforming_strings', 'on', true) AS strings
