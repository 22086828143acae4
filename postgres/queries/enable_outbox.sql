-- Write the outbox from now on. Waits for transactions that write to the tables, and holds other writes up meanwhile. If the
-- position of a consumer is of another server, or from the future, every row counts as unread for all consumers.
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
    -- All five or none: one that is missing leaves gaps.
    IF 5 > (
        SELECT count(*)
        FROM pg_catalog.pg_trigger
        WHERE (tgrelid = ':"schema".users'::regclass::oid AND tgname IN ('users_outbox', 'users_outbox_changed'))
            OR (tgrelid = ':"schema".series'::regclass::oid AND tgname IN ('series_outbox', 'series_outbox_changed'))
            OR (tgrelid = ':"schema".history'::regclass::oid AND tgname = 'history_outbox')
    ) THEN
        DROP TRIGGER IF EXISTS users_outbox ON :"schema".users;
        DROP TRIGGER IF EXISTS users_outbox_changed ON :"schema".users;
        DROP TRIGGER IF EXISTS series_outbox ON :"schema".series;
        DROP TRIGGER IF EXISTS series_outbox_changed ON :"schema".series;
        DROP TRIGGER IF EXISTS history_outbox ON :"schema".history;
        CREATE TRIGGER users_outbox AFTER INSERT OR DELETE ON :"schema".users
        FOR EACH ROW EXECUTE FUNCTION :"schema".outbox_user();
        CREATE TRIGGER users_outbox_changed AFTER UPDATE ON :"schema".users
        FOR EACH ROW
        WHEN (OLD.timezone <> NEW.timezone OR OLD.date_of_birth IS DISTINCT FROM NEW.date_of_birth
            OR (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL))
        EXECUTE FUNCTION :"schema".outbox_user();
        CREATE TRIGGER series_outbox AFTER INSERT ON :"schema".series
        FOR EACH ROW
        WHEN (NEW.event_id IS NOT NULL)
        EXECUTE FUNCTION :"schema".outbox_series();
        -- A successor that takes the place of what ends is written after the end, by history_outbox.
        CREATE TRIGGER series_outbox_changed AFTER UPDATE ON :"schema".series
        FOR EACH ROW
        WHEN (NEW.event_id IS NOT NULL AND NEW.event_id IS DISTINCT FROM OLD.event_id
            AND (OLD.event_id IS NULL OR (NEW.used_key = OLD.used_key AND NEW.used_unit = OLD.used_unit)))
        EXECUTE FUNCTION :"schema".outbox_series();
        CREATE TRIGGER history_outbox AFTER INSERT ON :"schema".history
        FOR EACH ROW EXECUTE FUNCTION :"schema".outbox_history();
    END IF;
END
$$
