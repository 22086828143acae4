-- The stored rules of all zones.
SELECT r.zone, r.fingerprint, r.since, r.version, r.recheck
FROM :"schema".zone_rules r
ORDER BY r.zone
