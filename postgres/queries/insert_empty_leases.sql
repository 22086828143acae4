-- Insert leases that hold no events yet.
--   @tokens uuid[] · @old uuid[] (parallel; the leases that the events come from) · @owner text · @lease interval
-- The program and its zone data are those of the old lease.
INSERT INTO :"schema".leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at, program, zone_data)
SELECT n.token, @owner::text, '{}', '{}', '{}', clock_timestamp(), clock_timestamp() + @lease::interval, l.program, l.zone_data
FROM unnest(@tokens::uuid[], @old::uuid[]) AS n (token, old)
LEFT JOIN :"schema".leases l ON l.token = n.old
