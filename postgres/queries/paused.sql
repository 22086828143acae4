-- The types of events that are paused.
SELECT p.event_type, p.since
FROM :"schema".pauses p
ORDER BY p.event_type
