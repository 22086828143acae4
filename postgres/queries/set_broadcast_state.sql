-- Change the state of a broadcast, and end its lease. What a stop or a resume has begun begins again.
--   @name text · @state text · @requeue boolean (whether the events that a stop has cancelled are to be requeued, and zones to be read again: users who
--   were refused or locked are tried again)
WITH again AS (
    UPDATE :"schema".broadcast_zones z
    SET next_at = clock_timestamp(), position = NULL, reads = 1
    WHERE z.broadcast = @name::text AND @requeue::boolean AND z.reads > 0 AND z.due IS NOT NULL
)
UPDATE :"schema".broadcasts b
SET state = @state::text, ended_at = NULL, lease = NULL, lease_until = NULL,
    requeue_at = CASE WHEN @requeue::boolean THEN clock_timestamp() END,
    requeued = NULL, missed = NULL, cancel_at = NULL, cancel_id = NULL, counted = NULL,
    look_at = CASE WHEN @state::text = 'collecting' THEN NULL ELSE clock_timestamp() END
WHERE b.name = @name::text
