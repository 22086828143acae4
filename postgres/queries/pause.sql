-- Note that a type of event is paused, unless it is.
--   @type text
INSERT INTO :"schema".pauses (event_type)
VALUES (@type)
ON CONFLICT (event_type) DO NOTHING
