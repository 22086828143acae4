-- Users need neither names nor a date of birth, and the year of birth may be unknown.
--
-- An absent name is ''. An absent date of birth is NULL. A date of birth without its year is stored in the year 4, a leap year, so
-- that it has each month and day: '0004-02-29'.
--
-- The migration locks users (ACCESS EXCLUSIVE) until it commits, and reads the table once, to check it: 0.1 s for a million users.
-- Claims, outcomes and edits wait for that time.
--
-- Upgrade in this order:
--   1. Migrate. Programs of the previous release may go on. They read absent names as "", and leave them unchanged.
--   2. Replace the programs one by one. This release reads users without a full date of birth, and stores none by itself.
--   3. When no program of the previous release is left, let users be without: almanac.WithOptionalProfile, and the option of the same
--      name of httpapi. A program of the previous release cannot read a user without a full date of birth, and each of its claims that
--      has an event of such a user fails.
ALTER TABLE :"schema".users
    ALTER COLUMN date_of_birth DROP NOT NULL,
    DROP CONSTRAINT users_first_name_check,
    DROP CONSTRAINT users_last_name_check,
    DROP CONSTRAINT users_date_of_birth_check,
    ADD CONSTRAINT users_date_of_birth_check
        CHECK (date_of_birth BETWEEN '1900-01-01' AND '9999-12-31' OR date_of_birth BETWEEN '0004-01-01' AND '0004-12-31');
