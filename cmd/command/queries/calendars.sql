-- The calendars that events follow, and the last day of each that is known.
SELECT c.name, c.release, c.until FROM :"schema".calendars c ORDER BY c.name
