-- The audit trail says who asked for a step.
--
-- The migration locks audit (ACCESS EXCLUSIVE) until it commits, and reads no rows. While the trail is enabled, everything that writes
-- events waits for that time.
--
-- Programs of the previous release may run beside this one. They neither set the setting nor read the column, so their steps have no
-- principal (NULL). So have the steps of the trail as it is. A program of this release refuses to run before the migration.
ALTER TABLE :"schema".audit ADD COLUMN principal varchar(200);

-- Apart, because ADD COLUMN would fill existing rows with what the default is in this session.
ALTER TABLE :"schema".audit
    ALTER COLUMN principal SET DEFAULT left(nullif(current_setting('almanac.principal', true), ''), 200);
