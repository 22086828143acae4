-- Count the events in flight, by type.
--   @mask integer (zero for all events; 2^n - 1 for one of 2^n)
-- Returns the type and the number of events. It looks up the series of each event that is chosen.
SELECT e.event_type, count(*)
FROM :"schema".processing_events e
WHERE uuid_hash(e.id) & @mask::integer = 0
GROUP BY e.event_type
