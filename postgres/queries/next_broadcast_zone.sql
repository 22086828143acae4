-- The zone of a broadcast to read next: one that was read less often, then one that is due earlier.
--   @name text
-- Returns the zone, the wall time and the instant (NULL if it is left out), and whether the time had passed; or nothing.
SELECT z.zone, z.wall, z.due, z.late
FROM :"schema".broadcast_zones z
WHERE z.broadcast = @name::text AND z.next_at <= clock_timestamp()
ORDER BY z.reads, z.due NULLS LAST, z.zone
LIMIT 1
