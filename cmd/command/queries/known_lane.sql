-- Whether a lane has settings or pending events.
--   @name text
-- returns the name if so
SELECT l.name FROM :"schema".lanes l WHERE l.name = @name::text
UNION
(SELECT v.lane FROM :"schema".visits v WHERE v.lane = @name::text LIMIT 1)
