-- Store that this transaction stores events that were planned by other rules than those in zone_rules. Parallel arrays, one element
-- per zone:
--   @zones text[] · @fingerprints bigint[] · @since integer[] · @versions text[]
-- The statement only adds rows, so no transaction waits for a transaction that stays open.
INSERT INTO :"schema".zone_marks (zone, fingerprint, since, version)
SELECT * FROM unnest(@zones::text[], @fingerprints::bigint[], @since::integer[], @versions::text[])
