-- Change the state of a broadcast, and end its lease.
--   @name text · @state text · @requeue boolean (whether the events that a stop has cancelled are to be requeued)
UPDATE :"schema".broadcasts b
SET state = @state::text, ended_at = NULL, lease = NULL, lease_until = NULL,
    requeued = CASE WHEN @requeue::boolean THEN '00000000-0000-0000-0000-000000000000'::uuid ELSE b.requeued END,
    look_at = CASE WHEN @state::text = 'collecting' THEN NULL ELSE clock_timestamp() END
WHERE b.name = @name::text
