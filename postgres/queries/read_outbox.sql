-- The next rows of the outbox: committed by the snapshot @reading, and not by the snapshot @seen.
--   @seen text · @reading text · @after bigint (rows up to this number were read, or are not wanted) · @last bigint (the same, of
--   transactions that were open in @seen) · @limit integer
-- The rows are in order of their numbers. Two transactions that change the same user or series follow each other, so the second
-- one has the greater numbers, and is never in an earlier snapshot.
WITH late AS (
    SELECT o.*
    FROM pg_snapshot_xip(@seen::text::pg_snapshot) AS open (xid)
    CROSS JOIN LATERAL (
        SELECT o.*
        FROM :"schema".outbox o
        WHERE o.transaction_id = open.xid
            AND o.sequence > @last
            AND pg_visible_in_snapshot(o.transaction_id, @reading::text::pg_snapshot)
        ORDER BY o.sequence
        LIMIT @limit
    ) o
), fresh AS (
    SELECT o.*
    FROM :"schema".outbox o
    WHERE o.sequence > @after
        AND o.transaction_id >= pg_snapshot_xmax(@seen::text::pg_snapshot)
        AND pg_visible_in_snapshot(o.transaction_id, @reading::text::pg_snapshot)
    ORDER BY o.sequence
    LIMIT @limit
)
SELECT o.id, o.sequence, o.at, o.kind, o.user_id, o.event_id, o.event_type, o.version, o.old_timezone, o.new_timezone
FROM (SELECT * FROM late UNION ALL SELECT * FROM fresh) o
ORDER BY o.sequence
LIMIT @limit
