-- The marks that are committed, each once. Locks nothing.
SELECT DISTINCT m.zone, m.fingerprint, m.since, m.version
FROM :"schema".zone_marks m
ORDER BY m.zone, m.version, m.fingerprint, m.since
