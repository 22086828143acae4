-- Add ended events to the counts of a broadcast, of which there may be more to count now, and end its lease. Parallel arrays of zones:
--   @name text · @zones text[] · @delivered, @failed, @cancelled bigint[] · @last uuid (the last event that is counted now; NULL: none is)
WITH at AS MATERIALIZED (
    SELECT b.counted IS NOT NULL AS goes_on FROM :"schema".broadcasts b WHERE b.name = @name::text
), kept AS (
    UPDATE :"schema".broadcast_zones z
    SET delivered = CASE WHEN at.goes_on THEN coalesce(z.delivered, 0::bigint) ELSE 0::bigint END + coalesce(n.delivered, 0::bigint),
        failed = CASE WHEN at.goes_on THEN coalesce(z.failed, 0::bigint) ELSE 0::bigint END + coalesce(n.failed, 0::bigint),
        cancelled = CASE WHEN at.goes_on THEN coalesce(z.cancelled, 0::bigint) ELSE 0::bigint END + coalesce(n.cancelled, 0::bigint)
    FROM :"schema".broadcast_zones o
    CROSS JOIN at
    LEFT JOIN unnest(@zones::text[], @delivered::bigint[], @failed::bigint[], @cancelled::bigint[]) AS n (zone, delivered, failed, cancelled)
        ON n.zone = o.zone
    WHERE z.broadcast = @name::text AND o.broadcast = @name::text AND o.zone = z.zone
)
UPDATE :"schema".broadcasts b
SET counted = coalesce(@last::uuid, b.counted), look_at = clock_timestamp(), lease = NULL, lease_until = NULL
WHERE b.name = @name::text
