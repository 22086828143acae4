-- Read the clock and the events that leases list.
--   @tokens uuid[]
-- Returns a row for each token: the clock, the token, the events of its lease, and since when these events may be ahead of their
-- target. The lists are empty if there is no such lease.
SELECT clock.read, n.token, coalesce(l.series_ids, '{}'), coalesce(l.event_ids, '{}'), coalesce(l.versions, '{}'), l.ahead_since
FROM (SELECT clock_timestamp() OFFSET 0) AS clock (read), pg_catalog.unnest(@tokens::uuid[]) AS n (token)
LEFT JOIN :"schema".leases l ON l.token = n.token
