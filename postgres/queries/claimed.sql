-- The events that a lease has, with their users, as claim.sql returns them.
--   @token uuid
SELECT l.claimed_at, NULL::timestamptz, NULL::text[], true, false, :claimed, :user, CASE WHEN s.used_unit <> s.key_unit OR s.used_others IS NOT NULL THEN :used END
FROM :"schema".leases l
CROSS JOIN LATERAL unnest(l.series_ids, l.event_ids, l.versions) AS held (series_id, event_id, version)
CROSS JOIN LATERAL (
    SELECT *
    FROM :"schema".series x
    WHERE x.id = held.series_id AND x.event_id = held.event_id AND x.version = held.version
    OFFSET 0
) s
JOIN :"schema".users u ON u.id = s.user_id
WHERE l.token = @token
ORDER BY s.target_timestamp_utc, s.event_id
