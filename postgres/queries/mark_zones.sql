-- Note that this transaction stores events that were planned by other rules than zone_rules has. Parallel arrays, one element per zone:
--   @zones text[] · @fingerprints bigint[] · @since integer[] · @versions text[]
-- Rows are only ever added, so nobody waits for a transaction that stays open.
INSERT INTO :"schema".zone_marks (zone, fingerprint, since, version)
SELECT *
FROM unnest(@zones::text[], @fingerprints::bigint[], @since::integer[], @versions::text[])
