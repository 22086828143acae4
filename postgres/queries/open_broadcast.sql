-- Whether a broadcast has events that are PENDING, and events that are PROCESSING.
--   @type text · @lane text
SELECT EXISTS (SELECT FROM :"schema".queue q WHERE q.event_type = @type::text AND q.lane = @lane::text),
    EXISTS (SELECT FROM :"schema".processing_events e WHERE e.event_type = @type::text AND e.lane = @lane::text)
