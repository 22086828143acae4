-- The leases: how many are in force, how many events those list, how many have run out and were not released, and when the
-- oldest in force was claimed.
SELECT count(*) FILTER (WHERE l.expires_at > now()), coalesce(sum(pg_catalog.cardinality(l.event_ids)) FILTER (WHERE l.expires_at > now()), 0),
    count(*) FILTER (WHERE l.expires_at <= now()), min(l.claimed_at) FILTER (WHERE l.expires_at > now())
FROM :"schema".leases l
