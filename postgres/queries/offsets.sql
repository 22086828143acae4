-- How far clocks stand east of UTC in the zone of the session, by the database's own zone data, in seconds.
--   @instants timestamptz[]
SELECT extract(timezone FROM i.instant)::bigint
FROM pg_catalog.unnest(@instants::timestamptz[]) WITH ORDINALITY AS i (instant, place)
ORDER BY i.place
