-- Delete users from the list of a broadcast, which cannot be resumed any more: its list would be a part.
--   @name text · @limit bigint
-- Returns whether users are left. Waits for no lock: an edit of many users locks rows in another order. What it has locked is left.
WITH closed AS (
    UPDATE :"schema".broadcasts b SET state = 'ended' WHERE b.name = @name::text AND b.state <> 'ended'
), gone AS (
    DELETE FROM :"schema".broadcast_users l
    WHERE l.ctid = ANY (ARRAY (
        SELECT o.ctid FROM :"schema".broadcast_users o WHERE o.broadcast = @name::text LIMIT @limit::bigint FOR UPDATE SKIP LOCKED
    ))
    RETURNING l.user_id
)
SELECT (SELECT count(*) FROM gone) < (SELECT count(*) FROM (SELECT FROM :"schema".broadcast_users o WHERE o.broadcast = @name::text LIMIT @limit::bigint + 1) few)
