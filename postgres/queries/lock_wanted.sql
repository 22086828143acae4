-- Lock the series of a user that a settlement is about to write besides its own.
--   @user uuid · @types text[] · @names text[] (parallel; of the series)
-- Locks the series FOR NO KEY UPDATE. Those that another transaction has locked are passed over: nothing here waits for them.
-- Returns whether all that are stored are locked now.
WITH stored AS MATERIALIZED (
    SELECT s.id
    FROM unnest(@types::text[], @names::text[]) AS n (event_type, name)
    JOIN :"schema".series s ON s.user_id = @user::uuid AND s.event_type = n.event_type AND s.name = n.name
), locked AS MATERIALIZED (
    SELECT s.id
    FROM :"schema".series s
    WHERE s.id = ANY (ARRAY (SELECT stored.id FROM stored))
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT (SELECT count(*) FROM stored) = (SELECT count(*) FROM locked)
