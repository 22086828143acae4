-- Count cancelled events of a broadcast that were requeued, by zone. Parallel arrays of zones:
--   @name text · @zones text[] · @counts bigint[]
UPDATE :"schema".broadcast_zones z
SET requeued = z.requeued + n.requeued
FROM unnest(@zones::text[], @counts::bigint[]) AS n (zone, requeued)
WHERE z.broadcast = @name::text AND z.zone = n.zone
