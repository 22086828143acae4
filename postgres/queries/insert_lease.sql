-- Lease one event from now on.
--   @token uuid · @owner text · @series bigint · @id uuid · @version integer (the event's while it was PENDING) · @lease interval
INSERT INTO :"schema".leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at)
VALUES (@token, @owner, ARRAY[@series::bigint], ARRAY[@id::uuid], ARRAY[@version::integer], clock_timestamp(),
    clock_timestamp() + @lease::interval)
