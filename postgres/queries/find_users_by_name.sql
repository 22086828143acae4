-- Find users by the beginning of their full names or their last names, a page at a time, in the order of the matching names.
--   @least text (the beginning, without case) · @after_name text · @after uuid · @email text (without case) · @external_id text
--   @zone_source text · @limit integer
-- A user whose full name and last name both match is listed by the full name alone. The list goes on after the user @after, who was
-- listed by @after_name. It begins after the text and the least id, which no user has. Names are compared byte by byte, so a name
-- begins with a text if it lies between that text and the text followed by the greatest character.
SELECT :user
FROM (
    (
        SELECT u.folded_name AS name, u.*
        FROM :"schema".users u
        WHERE u.deleted_at IS NULL
            AND u.folded_name < @least::text || chr(1114111)
            AND (u.folded_name, u.id) > (@after_name::text, @after::uuid)
            AND (@email::text = '' OR u.folded_email = @email::text) AND (@external_id::text = '' OR u.external_id = @external_id::text)
            AND (@zone_source::text = '' OR u.zone_source = @zone_source::text)
        ORDER BY u.folded_name, u.id
        LIMIT @limit
    )
    UNION ALL
    (
        SELECT u.folded_last_name AS name, u.*
        FROM :"schema".users u
        WHERE u.deleted_at IS NULL
            AND u.folded_last_name < @least::text || chr(1114111)
            AND NOT starts_with(u.folded_name, @least::text)
            AND (u.folded_last_name, u.id) > (@after_name::text, @after::uuid)
            AND (@email::text = '' OR u.folded_email = @email::text) AND (@external_id::text = '' OR u.external_id = @external_id::text)
            AND (@zone_source::text = '' OR u.zone_source = @zone_source::text)
        ORDER BY u.folded_last_name, u.id
        LIMIT @limit
    )
) u
ORDER BY u.name, u.id
LIMIT @limit
