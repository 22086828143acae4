-- Lock users, in the order of their ids, against edits and deletion: until the transaction ends they stay as they are.
--   @ids uuid[]
-- Locks the users FOR SHARE, which others who do the same pass. Users that another transaction has locked otherwise are left out:
-- nothing here waits for them.
SELECT :user
FROM :"schema".users u
WHERE u.id = ANY (ARRAY (SELECT unnest(@ids::uuid[])))
    AND u.deleted_at IS NULL
ORDER BY u.id
FOR SHARE SKIP LOCKED
