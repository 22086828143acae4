-- Which of some users are stored, deleted ones included. With settle_users.sql, it distinguishes locked users from users that do not exist.
--   @ids uuid[]
SELECT u.id
FROM :"schema".users u
WHERE u.id = ANY (ARRAY (SELECT pg_catalog.unnest(@ids::uuid[])))
