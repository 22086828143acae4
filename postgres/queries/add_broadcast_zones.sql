-- Store zones of a broadcast, with nothing read.
--   @name text · parallel arrays: @zones text[] · @walls timestamp[] · @dues timestamptz[] (both NULL: the zone is left out) · @late boolean[]
INSERT INTO :"schema".broadcast_zones (broadcast, zone, wall, due, late)
SELECT @name::text, n.zone, n.wall, n.due, n.late
FROM unnest(@zones::text[], @walls::timestamp[], @dues::timestamptz[], @late::boolean[]) AS n (zone, wall, due, late)
ON CONFLICT (broadcast, zone) DO NOTHING
