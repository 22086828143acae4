-- Delete the note that series wait for a program with the handler.
--   @series bigint[]
DELETE FROM :"schema".unplanned n
WHERE n.series_id = ANY (@series::bigint[])
