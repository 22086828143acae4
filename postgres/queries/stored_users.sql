-- Which of some users are stored, deleted ones included. With settle_users, it tells users that are locked from users that are gone.
--   @ids uuid[]
SELECT u.id
FROM :"schema".users u
WHERE u.id = ANY (ARRAY (SELECT unnest(@ids::uuid[])))
