-- Insert leases that hold no events yet.
--   @tokens uuid[] · @owner text · @lease interval
INSERT INTO :"schema".leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at)
SELECT n.token, @owner::text, '{}', '{}', '{}', clock_timestamp(), clock_timestamp() + @lease::interval
FROM unnest(@tokens::uuid[]) AS n (token)
