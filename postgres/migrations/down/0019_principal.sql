-- Programs of this release must be stopped. The trail loses who asked for its steps.
-- Loses audit WHERE principal IS NOT NULL
ALTER TABLE :"schema".audit DROP COLUMN principal;
