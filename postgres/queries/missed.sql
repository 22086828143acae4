-- Count what has been ready to be claimed for longer than a grace.
--   @types text[] · @grace interval
SELECT count(*), min(e.target_timestamp_utc), max(e.target_timestamp_utc)
FROM :"schema".events e
WHERE e.available_at < now() - @grace::interval
    AND e.event_type = ANY (@types::text[])
