-- Store which cancelled event of a broadcast was looked at last, and count those that were requeued. Parallel arrays of zones:
--   @name text · @requeued uuid (NULL: none is left) · @zones text[] · @counts bigint[]
WITH counted AS (
    UPDATE :"schema".broadcast_zones z
    SET requeued = z.requeued + n.requeued
    FROM unnest(@zones::text[], @counts::bigint[]) AS n (zone, requeued)
    WHERE z.broadcast = @name::text AND z.zone = n.zone
)
UPDATE :"schema".broadcasts b
SET requeued = @requeued::uuid
WHERE b.name = @name::text
