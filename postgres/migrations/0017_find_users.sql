-- Users can be found by the beginning of their names, and by e-mail address.
--
-- The migration keeps users from being written (SHARE) until it commits, and builds three indexes: 6 s for a million users. Claims and
-- outcomes go on; edits wait. A host with many users creates the same indexes before, with CREATE INDEX CONCURRENTLY.
--
-- Programs of the previous release may run beside this one. A program of this release refuses to run before the migration.
CREATE INDEX IF NOT EXISTS users_full_name ON :"schema".users (
    (lower(first_name || CASE WHEN first_name = '' OR last_name = '' THEN '' ELSE ' ' END || last_name) COLLATE "C"), id
) WHERE deleted_at IS NULL;

CREATE INDEX IF NOT EXISTS users_last_name ON :"schema".users ((lower(last_name) COLLATE "C"), id) WHERE deleted_at IS NULL;

CREATE INDEX IF NOT EXISTS users_email ON :"schema".users (lower(email), id) WHERE email IS NOT NULL AND deleted_at IS NULL;

COMMENT ON INDEX :"schema".users_full_name IS 'Users by the beginning of their full names, in small letters';
COMMENT ON INDEX :"schema".users_last_name IS 'Users by the beginning of their last names, in small letters';
COMMENT ON INDEX :"schema".users_email IS 'Users by e-mail address, in small letters';
