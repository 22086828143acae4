-- The settings that all programs must have with the same value.
SELECT s.name, s.value, s.program, s.since
FROM :"schema".settings s
ORDER BY s.name
