-- Count the latest ended events, by type and status, for roles that may read the history through the view only.
--   @limit bigint (NULL for all)
SELECT e.event_type, e.status, count(*)
FROM (SELECT x.event_type, x.status FROM :"schema".ended_events x ORDER BY x.id DESC LIMIT @limit::bigint) e
GROUP BY e.event_type, e.status
