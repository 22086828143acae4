-- Find out why users were not stored.
--   @ids uuid[] · @external_ids text[]
-- Returns the stored ids, of deleted users included, and the external ids with the users who have them.
SELECT u.id, NULL::text
FROM :"schema".users u
WHERE u.id = ANY (ARRAY (SELECT pg_catalog.unnest(@ids::uuid[])))
UNION ALL
SELECT u.id, u.external_id
FROM :"schema".users u
WHERE u.external_id = ANY (ARRAY (SELECT pg_catalog.unnest(@external_ids::text[])))
    AND u.deleted_at IS NULL
