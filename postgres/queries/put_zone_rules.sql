-- Store the rules of zones, adding or replacing them. Parallel arrays, one element per zone:
--   @zones text[] · @fingerprints bigint[] · @since integer[] · @versions text[] · @recheck timestamptz[] (NULL: no doubt)
INSERT INTO :"schema".zone_rules AS r (zone, fingerprint, since, version, recheck)
SELECT * FROM unnest(@zones::text[], @fingerprints::bigint[], @since::integer[], @versions::text[], @recheck::timestamptz[])
ON CONFLICT (zone) DO UPDATE
SET fingerprint = excluded.fingerprint, since = excluded.since, version = excluded.version, recheck = excluded.recheck
