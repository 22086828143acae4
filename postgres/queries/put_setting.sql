-- Store a setting that all programs must have with the same value. If it has the value already, nothing changes.
--   @name text · @value text · @program text
-- Locks the row.
INSERT INTO :"schema".settings AS s (name, value, program)
VALUES (@name::text, @value::text, @program::text)
ON CONFLICT (name) DO UPDATE
SET value = excluded.value, program = excluded.program, since = pg_catalog.clock_timestamp()
WHERE s.value <> excluded.value
