-- Count the users on a part of the pages, by time zone.
--   @percent real (of the pages)
SELECT u.timezone, count(*)
FROM :"schema".users u TABLESAMPLE SYSTEM (@percent::real) REPEATABLE (0)
WHERE u.deleted_at IS NULL
GROUP BY u.timezone
