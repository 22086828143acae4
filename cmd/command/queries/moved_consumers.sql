-- The consumers of the outbox whose positions are of another server.
-- Returns their names. Needs SELECT on the positions.
SELECT c.name
FROM :"schema".outbox_consumers c
WHERE c.server <> (SELECT s.system_identifier FROM pg_catalog.pg_control_system() s)
ORDER BY c.name
