-- The settings of this session, and so of the role and the database, that decide whether programs work.
--   @names text[]
-- Returns each setting that this release of PostgreSQL has, and its value; times are in milliseconds.
SELECT s.name, s.setting
FROM pg_catalog.pg_settings s
WHERE s.name = ANY (@names::text[])
ORDER BY s.name
