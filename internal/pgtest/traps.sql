-- Operators and functions that no expression may use, in the schema public. Each raises an exception, or has a type that makes the
-- statement fail.
--   :functions text[], the names of the functions
SET search_path = pg_catalog;
DO $do$
DECLARE
    types text[] := ARRAY['text', 'varchar', 'name', '"char"', 'uuid', 'int4', 'int8', 'float8', 'numeric', 'bool', 'oid', 'regclass',
        'timestamptz', 'timestamp', 'date', 'interval', 'jsonb', 'xid', 'xid8', 'pg_snapshot', 'tid', 'text[]', 'uuid[]', 'int4[]', 'int8[]'];
    operators text[] := ARRAY['=', '<>', '<', '>', '<=', '>=', '~', '~~', '+', '-', '*', '/', '||', '&', '&&', '@>', '->>'];
    -- Arguments of functions, besides one of the types.
    lists text[] := ARRAY['', 'timestamptz[]', 'timestamp[]', 'date[]', 'bool[]', 'text, text', 'varchar, varchar', 'text, int4',
        'varchar, int4', 'name, text', 'text, bool', 'text, text, text', 'varchar, varchar, varchar', 'text, varchar, varchar',
        'text, text, bool', 'text, text, text, text', 'text[], text', 'int8, int8', 'int4, int4'];
    trap text := 'LANGUAGE plpgsql AS ''BEGIN RAISE ''''trapped''''; END''';
    l text;
    r text;
    o text;
    f text;
BEGIN
    FOREACH l IN ARRAY types LOOP
        FOREACH r IN ARRAY types LOOP
            EXECUTE format('CREATE FUNCTION public.trap(%s, %s) RETURNS bool %s', l, r, trap);
            FOREACH o IN ARRAY operators LOOP
                EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.trap)', o, l, r);
            END LOOP;
        END LOOP;
    END LOOP;
    FOR f IN SELECT DISTINCT p.proname FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (:functions) LOOP
        FOREACH l IN ARRAY types || lists LOOP
            EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS text %s', f, l, trap);
        END LOOP;
    END LOOP;
    EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
END
$do$
