-- Take all marks that are committed. In the same transaction mark_zones puts back the marks that must stay. Only marks that this
-- statement returns are deleted. Locks the rows; the table zone_rules is locked before, so two callers never meet.
WITH removed AS (
    DELETE FROM :"schema".zone_marks m
    RETURNING m.zone, m.fingerprint, m.since, m.version
)
SELECT DISTINCT r.zone, r.fingerprint, r.since, r.version
FROM removed r
ORDER BY r.zone, r.version, r.fingerprint, r.since
