-- List leases, oldest claim first.
--   @limit integer
-- Returns the leases, each with how many events it lists and whether it has expired.
SELECT l.token, l.owner, coalesce(l.program, ''), coalesce(l.zone_data, ''), pg_catalog.cardinality(l.event_ids), l.claimed_at, l.expires_at,
    l.expires_at < clock_timestamp()
FROM (
    SELECT x.token, x.owner, x.program, x.zone_data, x.event_ids, x.claimed_at, x.expires_at
    FROM :"schema".leases x
    ORDER BY x.claimed_at, x.token
    LIMIT @limit
) l
ORDER BY l.claimed_at, l.token
