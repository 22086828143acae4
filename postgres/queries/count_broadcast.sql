-- How many users an audience has in each zone.
--   @name text · @attributes text (JSON; NULL: any) · @locale text ('': any) · @listed boolean
SELECT u.timezone, count(*)
FROM :"schema".users u
WHERE u.deleted_at IS NULL
    AND (@attributes::text IS NULL OR u.attributes @> @attributes::text::jsonb)
    AND (@locale::text = '' OR u.locale = @locale::text OR pg_catalog.starts_with(u.locale, @locale::text || '-'::text))
    AND (NOT @listed::boolean OR u.id IN (SELECT l.user_id FROM :"schema".broadcast_users l WHERE l.broadcast = @name::text))
GROUP BY u.timezone
