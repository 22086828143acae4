-- Lock users, in the order of their ids, against edits and deletion. Until the transaction ends, the users do not change.
--   @ids uuid[]
-- Locks the users FOR SHARE, which does not block other FOR SHARE locks. Users that another transaction has locked otherwise are
-- left out: this statement waits for no lock.
SELECT :user
FROM :"schema".users u
WHERE u.id = ANY (ARRAY (SELECT pg_catalog.unnest(@ids::uuid[]))) AND u.deleted_at IS NULL
ORDER BY u.id
FOR SHARE SKIP LOCKED
