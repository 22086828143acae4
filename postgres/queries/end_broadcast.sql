-- Note that all events of a broadcast have ended and were counted. Those that were requeued after a stop are no longer cancelled.
--   @name text
WITH kept AS (
    UPDATE :"schema".broadcast_zones z
    SET cancelled = greatest(z.cancelled - z.requeued, 0::bigint)
    WHERE z.broadcast = @name::text
)
UPDATE :"schema".broadcasts b
SET state = CASE WHEN b.state = 'stopped' THEN b.state ELSE 'ended' END, ended_at = clock_timestamp(), look_at = NULL, counted = NULL
WHERE b.name = @name::text
