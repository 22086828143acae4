-- The stored calendars.
SELECT c.name, c.release, c.until, c.since, c.hashes, c.changed, c.releases
FROM :"schema".calendars c
ORDER BY c.name
