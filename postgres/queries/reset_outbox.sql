-- If the position of a consumer is of another server, or from the future, let every row count as unread for all consumers.
DO $$
BEGIN
    IF EXISTS (
        SELECT FROM :"schema".outbox_consumers c WHERE :elsewhere OR pg_snapshot_xmax(c.reading) > pg_snapshot_xmax(pg_current_snapshot())
        UNION ALL
        SELECT FROM :"schema".outbox o
        WHERE o.transaction_id >= pg_snapshot_xmax(pg_current_snapshot())
            AND o.transaction_id IS DISTINCT FROM pg_current_xact_id_if_assigned()
    ) THEN
        LOCK TABLE :"schema".outbox, :"schema".outbox_consumers IN SHARE ROW EXCLUSIVE MODE;
        UPDATE :"schema".outbox SET transaction_id = pg_current_xact_id();
        UPDATE :"schema".outbox_consumers SET seen = '3:3:', low = 0, reading = '3:3:', next_low = 0, last = 0, server = DEFAULT;
    END IF;
END
$$
