-- Delete users from the list of a broadcast.
--   @name text · @limit bigint
DELETE FROM :"schema".broadcast_users l
WHERE l.ctid = ANY (ARRAY (SELECT o.ctid FROM :"schema".broadcast_users o WHERE o.broadcast = @name::text LIMIT @limit::bigint))
