-- Users can have a locale, an e-mail address and an external id, which no two users have in common.
--
-- The migration locks users (ACCESS EXCLUSIVE) until it commits, and reads the table twice, to check it and to build the index:
-- 0.4 s for a million users. Claims, outcomes and edits wait for that time.
--
-- Upgrade in this order:
--   1. Migrate. Programs of the previous release may go on. They neither read nor write the new columns: their edits leave them
--      unchanged, users that they create have none, and a user whom they delete loses the external id.
--   2. Run docs/roles.sql again, if its roles are used. Until then almanac_api can read the new columns, but cannot write them, and
--      this release cannot create or edit users as that role.
--   3. Replace the programs one by one. A program of this release refuses to run before the migration.
ALTER TABLE :"schema".users
    ADD COLUMN locale varchar(100),
    ADD COLUMN email varchar(254),
    ADD COLUMN external_id varchar(200) COLLATE "C",
    ADD CONSTRAINT users_locale_check CHECK (length(locale) > 0),
    ADD CONSTRAINT users_email_check CHECK (length(email) > 0),
    ADD CONSTRAINT users_external_id_check CHECK (length(external_id) > 0);

CREATE UNIQUE INDEX users_external_id ON :"schema".users (external_id) WHERE external_id IS NOT NULL AND deleted_at IS NULL;

COMMENT ON INDEX :"schema".users_external_id IS 'The user who has an external id';
