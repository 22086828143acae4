-- Which zones are in use, and which rules their events follow.
SELECT r.zone, r.fingerprint, r.since, r.version FROM :"schema".zone_rules r ORDER BY r.zone COLLATE "C"
