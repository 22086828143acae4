-- Delete the pause of a type of event.
--   @type text
DELETE FROM :"schema".pauses p
WHERE p.event_type = @type
