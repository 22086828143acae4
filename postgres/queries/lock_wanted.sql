-- Lock the series of new events, if the series are stored already.
--   @users uuid[] · @types text[] · @names text[] · @detached text[] (parallel; these name the series)
-- Locks the series FOR NO KEY UPDATE. Series that another transaction has locked are skipped: this statement waits for no lock.
-- Returns the users of the series that were passed over.
WITH stored AS MATERIALIZED (
    SELECT s.id, s.user_id
    FROM unnest(@users::uuid[], @types::text[], @names::text[], @detached::text[]) AS n (user_id, event_type, name, detached)
    JOIN :"schema".series s
        ON s.user_id = n.user_id AND s.event_type = n.event_type AND s.name = n.name AND s.detached = n.detached
), locked AS MATERIALIZED (
    SELECT s.id
    FROM :"schema".series s
    WHERE s.id = ANY (ARRAY (SELECT stored.id FROM stored))
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT DISTINCT stored.user_id
FROM stored
WHERE stored.id NOT IN (SELECT locked.id FROM locked)
