-- How far clocks stand east of UTC in a zone, by the database's own zone data, in seconds.
--   @zone text · @instants timestamptz[]
SELECT extract(epoch FROM (i.instant AT TIME ZONE @zone) - (i.instant AT TIME ZONE 'UTC'))::bigint
FROM unnest(@instants::timestamptz[]) WITH ORDINALITY AS i (instant, place)
ORDER BY i.place
