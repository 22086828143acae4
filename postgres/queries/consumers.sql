-- All consumers, each with the time of the oldest row that it has not read.
SELECT c.name, c.moved_at, least(
    (
        SELECT o.at
        FROM :"schema".outbox o
        WHERE o.sequence >= c.low AND o.transaction_id >= pg_snapshot_xmax(c.seen) AND NOT :consumed
        ORDER BY o.sequence
        LIMIT 1
    ),
    (SELECT o.at FROM :"schema".outbox o WHERE :elsewhere ORDER BY o.sequence LIMIT 1),
    (
        SELECT o.at
        FROM :"schema".outbox o
        WHERE o.transaction_id = ANY (ARRAY (SELECT pg_snapshot_xip(c.seen))) AND NOT :consumed
        ORDER BY o.sequence
        LIMIT 1
    )
)
FROM :"schema".outbox_consumers c
ORDER BY c.name
