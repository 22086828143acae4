-- End the pause of a lane.
--   @name text
UPDATE :"schema".lanes l
SET paused_since = NULL, paused_until = clock_timestamp(), pause_reason = NULL, pause_author = NULL
WHERE l.name = @name AND :paused
