-- Add visits that are due now to those of a lane, and of the lane that it is in, that have waited, after its settings have changed. The other
-- visits stay: a writer may rely on one that is more than a minute ahead.
--   @name text
WITH again AS (
    INSERT INTO :"schema".visits (scope, event_type, at, lane, since, turn)
    SELECT v.scope, v.event_type, clock_timestamp(), v.lane, min(v.since), CASE WHEN max(v.turn) IS NOT NULL THEN -1::float8 END
    FROM :"schema".visits v
    WHERE v.lane IN (@name::text, pg_catalog.split_part(@name::text, '/'::text, 1)) AND v.at > now() AND v.since <= now()
    GROUP BY v.scope, v.event_type, v.lane
    RETURNING scope, event_type, at
)
INSERT INTO :"schema".visits (scope, event_type, at, lane, since, turn)
SELECT '', again.event_type, max(again.at), again.scope, min(again.at), -1::float8
FROM again
WHERE again.scope <> ''
GROUP BY again.scope, again.event_type
