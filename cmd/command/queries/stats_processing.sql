-- What is in flight, by type. It costs one look at a series for each event that a lease lists.
SELECT e.event_type, 'PROCESSING', count(*) FROM :"schema".processing_events e GROUP BY e.event_type
