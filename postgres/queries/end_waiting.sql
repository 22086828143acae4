-- Forget that series have stalled.
--   @series bigint[]
DELETE FROM :"schema".unplanned n
WHERE n.series_id = ANY (@series::bigint[])
