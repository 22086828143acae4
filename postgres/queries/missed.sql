-- Count the events that have been ready to be claimed for longer than a grace.
--   @types text[] · @grace interval
-- The target of an event that is not delayed is when it can be claimed.
SELECT count(*), min(missed.target), max(missed.target)
FROM (
    SELECT coalesce(q.delayed_from, q.available_at) AS target
    FROM :"schema".queue q
    WHERE q.available_at < now() - @grace::interval AND q.event_type = ANY (@types::text[])
) missed
