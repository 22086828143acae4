-- Find the user who has an external id. A deleted user has none any more.
--   @external_id text
SELECT :user
FROM :"schema".users u
WHERE u.external_id = @external_id AND u.deleted_at IS NULL
