-- Which instants are so far back that their events may have been pruned.
--   @instants timestamptz[]
-- Returns for each instant, in the order given, whether its events may have been pruned.
SELECT i.instant < p.before
FROM pg_catalog.unnest(@instants::timestamptz[]) WITH ORDINALITY AS i (instant, place)
CROSS JOIN :"schema".pruning p
ORDER BY i.place
