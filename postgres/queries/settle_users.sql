-- Lock the users whose events are settled, deleted ones included, so that no edit, deletion or backfill of these users runs meanwhile.
--   @ids uuid[]
-- Locks the users FOR NO KEY UPDATE. Users that another transaction has locked are left out: this statement waits for no lock.
SELECT u.deleted_at IS NOT NULL, :user
FROM :"schema".users u
WHERE u.id = ANY (ARRAY (SELECT pg_catalog.unnest(@ids::uuid[])))
FOR NO KEY UPDATE SKIP LOCKED
