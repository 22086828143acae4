-- Delete users from the list of a broadcast, which cannot be resumed any more: its list would be a part. Delete what is kept of its events, too.
--   @name text · @limit bigint (of each)
-- Returns whether rows are left. Waits for no lock: an edit of many users locks rows in another order. What it has locked is left.
WITH closed AS (
    UPDATE :"schema".broadcasts b SET state = 'ended' WHERE b.name = @name::text AND b.state <> 'ended'
), gone AS (
    DELETE FROM :"schema".broadcast_users l
    WHERE l.ctid = ANY (ARRAY (
        SELECT o.ctid FROM :"schema".broadcast_users o WHERE o.broadcast = @name::text LIMIT @limit::bigint FOR UPDATE SKIP LOCKED
    ))
    RETURNING l.user_id
), uncounted AS (
    DELETE FROM :"schema".broadcast_removed r
    WHERE r.broadcast = @name::text
        AND r.id = ANY (ARRAY (SELECT o.id FROM :"schema".broadcast_removed o WHERE o.broadcast = @name::text LIMIT @limit::bigint))
    RETURNING r.id
)
SELECT (SELECT count(*) FROM gone) < (SELECT count(*) FROM (SELECT FROM :"schema".broadcast_users o WHERE o.broadcast = @name::text LIMIT @limit::bigint + 1) few)
    OR (SELECT count(*) FROM uncounted)
        < (SELECT count(*) FROM (SELECT FROM :"schema".broadcast_removed o WHERE o.broadcast = @name::text LIMIT @limit::bigint + 1) few)
