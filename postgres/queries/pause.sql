-- Store a pause of a type of event, unless the type is paused already.
--   @type text
INSERT INTO :"schema".pauses (event_type)
VALUES (@type)
ON CONFLICT (event_type) DO NOTHING
