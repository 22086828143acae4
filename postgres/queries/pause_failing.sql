-- Pause a lane whose receiver fails, until it is resumed. A lane that is paused keeps its pause.
--   @name text · @reason text
-- Locks the lane. Returns whether it was not paused. A function of the owner does this, so that a worker can change no other pause.
SELECT :"schema".pause_failing(@name::text, @reason::text)
