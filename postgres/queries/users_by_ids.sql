-- Find users by their ids, and users by their external ids, without deleted ones. A user may be found twice.
--   @ids uuid[] · @external_ids text[]
SELECT :user
FROM :"schema".users u
WHERE u.id = ANY (ARRAY (SELECT pg_catalog.unnest(@ids::uuid[]))) AND u.deleted_at IS NULL
UNION ALL
SELECT :user
FROM :"schema".users u
WHERE u.external_id = ANY (ARRAY (SELECT pg_catalog.unnest(@external_ids::text[]))) AND u.deleted_at IS NULL
