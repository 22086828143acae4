-- Take a page of ended events in order of creation, and delete those that ended before an instant, are due before it, and were
-- due before it when they were created. A key is deleted with the last event that has it. From then on pruning.before says that a
-- key of an earlier instant may have been used. An event that another transaction has locked, or whose key is locked, is left for
-- the next time. So a deletion of a user need not lock ended events. Events of a broadcast that has not ended still count. Waits for other transactions that prune.
--   @before timestamptz · @after uuid · @bound uuid (of nothing older than @before) · @limit integer
-- Returns how many events were deleted, how many were examined, and the last id of the page (NULL when it is empty).
WITH horizon AS (
    UPDATE :"schema".pruning p
    SET before = @before
    WHERE p.before < @before
), page AS MATERIALIZED (
    SELECT h.id
    FROM :"schema".history h
    WHERE h.id > @after AND h.id < @bound
    ORDER BY h.id
    LIMIT @limit
), ended AS MATERIALIZED (
    SELECT h.id, h.idempotency_key
    FROM :"schema".history h
    WHERE h.id = ANY (ARRAY (SELECT page.id FROM page))
        AND h.updated_at < @before
        AND h.target_timestamp_utc < @before
        AND (h.key_instant IS NULL OR h.key_instant < @before)
    FOR UPDATE OF h SKIP LOCKED
), held AS MATERIALIZED (
    SELECT k.idempotency_key, k.holders
    FROM :"schema".keys k
    WHERE k.idempotency_key = ANY (ARRAY (SELECT ended.idempotency_key FROM ended))
    FOR UPDATE OF k SKIP LOCKED
), busy AS MATERIALIZED (
    SELECT k.idempotency_key
    FROM :"schema".keys k
    WHERE k.idempotency_key = ANY (ARRAY (SELECT ended.idempotency_key FROM ended))
        AND k.idempotency_key NOT IN (SELECT held.idempotency_key FROM held)
), pruned AS (
    DELETE FROM :"schema".history h
    WHERE h.id = ANY (ARRAY (SELECT ended.id FROM ended WHERE ended.idempotency_key NOT IN (SELECT busy.idempotency_key FROM busy)))
    RETURNING h.idempotency_key, h.event_type, h.target_timestamp_utc, h.target_timezone, h.id, h.status, h.origin, h.lane, h.occurrence_key
), removed AS (
    INSERT INTO :"schema".broadcast_removed (broadcast, created_at, id, zone, status)
    SELECT p.occurrence_key, b.created_at, p.id, p.target_timezone, p.status
    FROM pruned p
    CROSS JOIN LATERAL (
        SELECT o.created_at
        FROM :"schema".broadcasts o
        WHERE o.name = p.occurrence_key AND o.event_type = p.event_type AND o.state <> 'ended'
        OFFSET 0
    ) b
    WHERE p.lane = p.event_type || '/'::text || p.occurrence_key AND p.origin IN ('scheduled', 'requeued')
), counted AS (
    INSERT INTO :"schema".due_changes (timezone, quarter, event_type, n)
    SELECT s.target_timezone, :quarter_of_s, s.event_type, -count(*)
    FROM pruned s
    GROUP BY 1, 2, 3
), spent AS MATERIALIZED (
    SELECT held.idempotency_key, held.holders - count(*) AS holders
    FROM pruned
    JOIN held ON held.idempotency_key = pruned.idempotency_key
    GROUP BY held.idempotency_key, held.holders
), freed AS (
    DELETE FROM :"schema".keys k
    USING spent
    WHERE k.idempotency_key = ANY (ARRAY (SELECT spent.idempotency_key FROM spent))
        AND k.idempotency_key = spent.idempotency_key
        AND spent.holders <= 0
), kept AS (
    UPDATE :"schema".keys k
    SET holders = spent.holders
    FROM spent
    WHERE k.idempotency_key = ANY (ARRAY (SELECT spent.idempotency_key FROM spent WHERE spent.holders > 0))
        AND k.idempotency_key = spent.idempotency_key
        AND spent.holders > 0
)
SELECT (SELECT count(*) FROM pruned), (SELECT count(*) FROM page), (SELECT page.id FROM page ORDER BY page.id DESC LIMIT 1)
