-- A lease says which program holds it, and which release of zone data that program has.
--
-- The migration locks leases (ACCESS EXCLUSIVE) until it commits, for some milliseconds: no row is rewritten.
--
-- Upgrade in this order:
--   1. Migrate. Programs of the previous release may go on. They neither read nor write the new columns, which are NULL in their leases.
--   2. Run docs/roles.sql again, if its roles are used. Until then almanac_reader cannot read the new columns.
--   3. Replace the programs one by one. A program of this release refuses to run before the migration.
ALTER TABLE :"schema".leases
    ADD COLUMN program text,
    ADD COLUMN zone_data text;
