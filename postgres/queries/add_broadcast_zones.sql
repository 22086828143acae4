-- Store zones of a broadcast, with nothing read.
--   @name text · parallel arrays: @zones text[] · @walls timestamp[] · @dues timestamptz[] (both NULL: the zone is left out) · @late boolean[]
--   @read boolean (whether the zones are to be read; otherwise they have counts only)
INSERT INTO :"schema".broadcast_zones (broadcast, zone, wall, due, late, next_at)
SELECT @name::text, n.zone, n.wall, n.due, n.late, CASE WHEN @read::boolean THEN clock_timestamp() END
FROM unnest(@zones::text[], @walls::timestamp[], @dues::timestamptz[], @late::boolean[]) AS n (zone, wall, due, late)
ON CONFLICT (broadcast, zone) DO NOTHING
