-- Pause a lane. A pause that lasts keeps its beginning, and gets the rest anew.
--   @name text · @until timestamptz (NULL: until the lane is resumed) · @reason text (NULL: none)
INSERT INTO :"schema".lanes AS l (name, paused_since, paused_until, pause_reason, pause_author)
VALUES (@name, clock_timestamp(), @until::timestamptz, @reason::text, left(coalesce(nullif(current_setting('almanac.principal', true), ''), session_user::text), 200))
ON CONFLICT (name) DO UPDATE
SET paused_since = CASE WHEN :paused THEN l.paused_since ELSE excluded.paused_since END,
    (paused_until, pause_reason, pause_author) = (excluded.paused_until, excluded.pause_reason, excluded.pause_author)
