-- Take a lease, to release its events. Events that cannot be released stay in the lease: see keep_leases.sql.
--   @token uuid
-- Locks the lease.
-- Returns the clock and the lease, or no row.
SELECT clock_timestamp(), l.token, l.series_ids, l.event_ids, l.versions, l.ahead_since, l.alone
FROM :"schema".leases l
WHERE l.token = @token
FOR UPDATE
