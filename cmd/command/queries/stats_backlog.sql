-- What can be claimed now: how many, up to a limit, and since when the first of them.
--   @limit bigint
SELECT clock_timestamp(), count(*), min(q.available_at)
FROM (SELECT x.available_at FROM :"schema".queue x WHERE x.available_at <= now() ORDER BY x.available_at, x.event_id LIMIT @limit::bigint) q
