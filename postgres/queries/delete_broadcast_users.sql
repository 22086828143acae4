-- Delete users from the list of a broadcast, which cannot be resumed any more: its list would be a part.
--   @name text · @limit bigint
WITH closed AS (
    UPDATE :"schema".broadcasts b SET state = 'ended' WHERE b.name = @name::text AND b.state <> 'ended'
)
DELETE FROM :"schema".broadcast_users l
WHERE l.ctid = ANY (ARRAY (SELECT o.ctid FROM :"schema".broadcast_users o WHERE o.broadcast = @name::text LIMIT @limit::bigint))
