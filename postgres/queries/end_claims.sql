-- Wait for the claims of a type that have read which lanes in its lane are paused, and have not committed. A claim locks a visit of the
-- type before it reads that. Claims that begin meanwhile wait for nothing: they pass over these visits for a moment.
--   @type text
SELECT v.at
FROM :"schema".visits v
WHERE v.lane = @type::text AND v.scope = ''
FOR SHARE
