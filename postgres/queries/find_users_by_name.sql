-- Find users by the beginning of their full names or their last names, a page at a time, in the order of the matching names.
--   @name text · @email text · @external_id text · @after_first text · @after_last text · @after uuid · @limit integer
-- :full_name and :last_name are the expressions of the indexes users_full_name and users_last_name.
-- A user whose full name and last name both match is listed by the full name alone. After the user @after, whose names were
-- @after_first and @after_last, the list goes on at the name by which that user was listed. Names are compared byte by byte once their
-- letters are small, so a name begins with a text if it lies between that text and the text followed by the greatest character. The
-- list begins after the text and the least id, which nobody has.
WITH bounds AS MATERIALIZED (
    SELECT
        b.least,
        b.least || chr(1114111) AS beyond,
        greatest(
            b.least COLLATE "C",
            CASE WHEN starts_with(b.after_full, b.least) THEN b.after_full ELSE b.after_last END
        ) AS after_name
    FROM (
        SELECT
            lower(@name::text) AS least,
            lower(@after_first::text || CASE WHEN @after_first = '' OR @after_last = '' THEN '' ELSE ' ' END || @after_last::text) AS after_full,
            lower(@after_last::text) AS after_last
    ) b
)
SELECT :user
FROM (
    (
        SELECT :full_name AS name, u.*
        FROM :"schema".users u
        WHERE u.deleted_at IS NULL
            AND :full_name < (SELECT bounds.beyond FROM bounds)
            AND (:full_name, u.id) > ((SELECT bounds.after_name FROM bounds), @after::uuid)
            AND (@email::text = '' OR lower(u.email) = lower(@email::text))
            AND (@external_id::text = '' OR u.external_id = @external_id::text)
        ORDER BY :full_name, u.id
        LIMIT @limit
    )
    UNION ALL
    (
        SELECT :last_name AS name, u.*
        FROM :"schema".users u
        WHERE u.deleted_at IS NULL
            AND :last_name < (SELECT bounds.beyond FROM bounds)
            AND NOT starts_with(:full_name, (SELECT bounds.least FROM bounds))
            AND (:last_name, u.id) > ((SELECT bounds.after_name FROM bounds), @after::uuid)
            AND (@email::text = '' OR lower(u.email) = lower(@email::text))
            AND (@external_id::text = '' OR u.external_id = @external_id::text)
        ORDER BY :last_name, u.id
        LIMIT @limit
    )
) u
ORDER BY u.name, u.id
LIMIT @limit
