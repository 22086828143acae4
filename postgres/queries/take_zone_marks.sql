-- Take all marks that are committed. In the same transaction mark_zones puts back the marks that must stay. Only marks that this
-- statement returns are deleted. Locks the rows; the table zone_rules is locked before, so two callers never meet.
WITH taken AS (
    DELETE FROM :"schema".zone_marks m
    RETURNING m.zone, m.fingerprint, m.since, m.version
)
SELECT DISTINCT t.zone COLLATE "C", t.fingerprint, t.since, t.version
FROM taken t
ORDER BY t.zone COLLATE "C", t.version, t.fingerprint, t.since
