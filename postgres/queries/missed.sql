-- Count the events that have been ready to be claimed for longer than a grace.
--   @types text[] · @grace interval
-- OFFSET 0 makes the planner look up the series by their ids; a join would read all series.
SELECT count(*), min(s.target_timestamp_utc), max(s.target_timestamp_utc)
FROM :"schema".queue q
CROSS JOIN LATERAL (SELECT x.target_timestamp_utc FROM :"schema".series x WHERE x.id = q.series_id OFFSET 0) s
WHERE q.available_at < now() - @grace::interval
    AND q.event_type = ANY (@types::text[])
