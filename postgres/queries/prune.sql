-- Delete, of a page of ended events in order of creation, those that ended before an instant, with their keys. What somebody has locked
-- is left for the next time, so that pruning waits for nobody, and whoever deletes a user need not lock what is over.
--   @before timestamptz · @after uuid · @bound uuid (of nothing older than @before) · @limit integer
-- Returns how many were deleted, how many were looked at, and the last id of the page (NULL when it is empty).
WITH page AS MATERIALIZED (
    SELECT h.id
    FROM :"schema".history h
    WHERE h.id > @after
        AND h.id < @bound
    ORDER BY h.id
    LIMIT @limit
), ended AS MATERIALIZED (
    SELECT h.id
    FROM :"schema".history h
    WHERE h.id = ANY (ARRAY (SELECT page.id FROM page))
        AND h.updated_at < @before
    FOR UPDATE OF h SKIP LOCKED
), pruned AS (
    DELETE FROM :"schema".history h
    WHERE h.id = ANY (ARRAY (SELECT ended.id FROM ended))
    RETURNING h.idempotency_key
), freed AS (
    DELETE FROM :"schema".keys k
    WHERE k.idempotency_key = ANY (ARRAY (SELECT pruned.idempotency_key FROM pruned))
)
SELECT (SELECT count(*) FROM pruned), (SELECT count(*) FROM page), (SELECT page.id FROM page ORDER BY page.id DESC LIMIT 1)
