-- Find users, a page at a time, in the order of their ids.
--   @email text (without case) · @external_id text · @zone_source text · @after uuid · @limit integer
-- The statement is planned for its values, so a text that is empty costs nothing.
SELECT :user
FROM :"schema".users u
WHERE u.deleted_at IS NULL
    AND u.id > @after
    AND (@email::text = '' OR u.folded_email IS NOT NULL AND u.folded_email = @email::text)
    AND (@external_id::text = '' OR u.external_id IS NOT NULL AND u.external_id = @external_id::text)
    AND (@zone_source::text = '' OR u.zone_source = @zone_source::text)
ORDER BY u.id
LIMIT @limit
