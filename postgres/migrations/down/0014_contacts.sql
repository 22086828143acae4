-- Programs of this release must be stopped. The index and the checks go with the columns.
-- Loses users WHERE locale IS NOT NULL OR email IS NOT NULL OR external_id IS NOT NULL
ALTER TABLE :"schema".users
    DROP COLUMN locale,
    DROP COLUMN email,
    DROP COLUMN external_id;
