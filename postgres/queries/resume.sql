-- Forget that a type of event is paused.
--   @type text
DELETE FROM :"schema".pauses p
WHERE p.event_type = @type
