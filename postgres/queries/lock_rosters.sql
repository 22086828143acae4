-- Lock users for edits, as lock_user.sql locks one: until the transaction ends, no other edit and no settlement reads the rows. Users
-- that another transaction has locked are left out: this statement waits for no lock.
--   @ids uuid[]
SELECT :user
FROM :"schema".users u
WHERE u.id = ANY (ARRAY (SELECT pg_catalog.unnest(@ids::uuid[]))) AND u.deleted_at IS NULL
ORDER BY u.id
FOR NO KEY UPDATE SKIP LOCKED
