-- Count all pending events, by time zone.
SELECT e.target_timezone, count(*)
FROM :"schema".pending_events e
GROUP BY e.target_timezone
