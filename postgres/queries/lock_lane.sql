-- Let no other transaction begin the state of a lane until this one ends. A state has no unique index: see schema.sql.
--   @name text
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(@name::text, 0::bigint))
