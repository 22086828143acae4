-- Count the events that have been ready to be claimed for longer than a grace.
--   @types text[] · @grace interval
-- The target of an event that is not delayed is when it can be claimed. A program of the previous release does not say since when
-- an event is delayed; then the target is in the series.
SELECT count(*), min(missed.target), max(missed.target)
FROM (
    SELECT
        CASE
            WHEN q.delayed_from IS NULL THEN q.available_at
            WHEN q.delayed_from > '-infinity' THEN q.delayed_from
            ELSE (SELECT s.target_timestamp_utc FROM :"schema".series s WHERE s.id = q.series_id)
        END AS target
    FROM :"schema".queue q
    WHERE q.available_at < now() - @grace::interval
        AND q.event_type = ANY (@types::text[])
) missed
