-- Find out why users were not stored.
--   @ids uuid[] · @external_ids text[]
-- Returns the stored ids with whether the user is deleted, and the external ids with the users who have them.
SELECT u.id, NULL::text, u.deleted_at IS NOT NULL
FROM :"schema".users u
WHERE u.id = ANY (ARRAY (SELECT pg_catalog.unnest(@ids::uuid[])))
UNION ALL
SELECT u.id, u.external_id, false
FROM :"schema".users u
WHERE u.external_id = ANY (ARRAY (SELECT pg_catalog.unnest(@external_ids::text[])))
    AND u.deleted_at IS NULL
