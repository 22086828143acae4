-- Lease one event that became PROCESSING by itself, so that nothing is ever PROCESSING without a lease.
--   @token uuid · @owner text · @id uuid · @lease interval
INSERT INTO :"schema".leases (token, owner, event_ids, claimed_at, expires_at)
VALUES (@token, @owner, ARRAY[@id::uuid], clock_timestamp(), clock_timestamp() + @lease::interval)
