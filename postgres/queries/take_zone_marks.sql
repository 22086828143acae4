-- Take all marks that are committed. What is not taken for good is put back by mark_zones in the same transaction: no mark is deleted
-- that this statement has not returned. Locks the rows; the table zone_rules is locked before, so two callers never meet.
WITH taken AS (
    DELETE FROM :"schema".zone_marks m
    RETURNING m.zone, m.fingerprint, m.since, m.version
)
SELECT DISTINCT t.zone COLLATE "C", t.fingerprint, t.since, t.version
FROM taken t
ORDER BY t.zone COLLATE "C", t.version, t.fingerprint, t.since
