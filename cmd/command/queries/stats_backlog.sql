-- What can be claimed now: how many, up to a limit, and since when the first of them. Then how many pending events were due and become
-- available later, up to the same limit.
--   @limit bigint
SELECT clock_timestamp(), count(*), min(q.available_at),
    (
        SELECT count(*)
        FROM (
            SELECT FROM :"schema".queue x
            WHERE x.delayed_from < now()
                AND x.available_at > now()
            LIMIT @limit::bigint
        ) d
    )
FROM (SELECT x.available_at FROM :"schema".queue x WHERE x.available_at <= now() ORDER BY x.available_at, x.event_id LIMIT @limit::bigint) q
