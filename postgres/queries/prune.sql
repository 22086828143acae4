-- Delete, of a page of events in order of creation, those that ended before an instant, except the last of each series that
-- was ever claimed. A key names its series before its first slash. What somebody has locked is left for the next time, so that
-- pruning waits for nobody, and whoever deletes a user need not lock what is over.
--   @before timestamptz · @after uuid · @bound uuid (of nothing older than @before) · @limit integer
-- Returns how many were deleted, how many were looked at, and the last id of the page (NULL when it is empty).
WITH page AS MATERIALIZED (
    SELECT e.id
    FROM :"schema".events e
    WHERE e.id > @after
        AND e.id < @bound
    ORDER BY e.id
    LIMIT @limit
), ended AS MATERIALIZED (
    SELECT e.id
    FROM :"schema".events e
    WHERE e.id IN (SELECT page.id FROM page)
        AND e.status IN ('COMPLETED', 'FAILED')
        AND e.updated_at < @before
        AND EXISTS (
            SELECT
            FROM :"schema".events later
            WHERE later.user_id = e.user_id
                AND later.event_type = e.event_type
                AND later.occurrence_key > e.occurrence_key
                AND later.claim_count > 0
                AND (strpos(later.occurrence_key, '/') > 0) = (strpos(e.occurrence_key, '/') > 0)
                AND (strpos(e.occurrence_key, '/') = 0
                    OR split_part(later.occurrence_key, '/', 1) = split_part(e.occurrence_key, '/', 1)))
    FOR UPDATE OF e SKIP LOCKED
), pruned AS (
    DELETE FROM :"schema".events e
    WHERE e.id = ANY (ARRAY (SELECT ended.id FROM ended))
    RETURNING e.id
)
SELECT (SELECT count(*) FROM pruned), (SELECT count(*) FROM page), (SELECT page.id FROM page ORDER BY page.id DESC LIMIT 1)
