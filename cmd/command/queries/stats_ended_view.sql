-- What has ended, by type and status, for roles that see the history through the view alone. It reads all of it.
SELECT e.event_type, e.status, count(*) FROM :"schema".ended_events e GROUP BY e.event_type, e.status
