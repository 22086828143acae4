-- Read the clock and what leases hold.
--   @tokens uuid[]
-- Returns a row for each token: the clock, the token, what it was given, and since when that may be ahead of its target;
-- empty lists where there is no such lease.
SELECT clock.read, n.token, coalesce(l.series_ids, '{}'), coalesce(l.event_ids, '{}'), coalesce(l.versions, '{}'), l.ahead_since
FROM (SELECT clock_timestamp() OFFSET 0) AS clock (read), unnest(@tokens::uuid[]) AS n (token)
LEFT JOIN :"schema".leases l ON l.token = n.token
