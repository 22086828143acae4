-- Write the trail from now on. Waits for transactions that write to the tables, and holds other writes up meanwhile.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = ':"schema".series'::regclass::oid AND tgname = 'series_audit') THEN
        CREATE TRIGGER series_audit AFTER INSERT OR UPDATE ON :"schema".series
        FOR EACH ROW EXECUTE FUNCTION :"schema".audit_series();
        CREATE TRIGGER history_audit AFTER INSERT ON :"schema".history
        FOR EACH ROW EXECUTE FUNCTION :"schema".audit_history();
        CREATE TRIGGER leases_audit AFTER INSERT ON :"schema".leases
        FOR EACH ROW EXECUTE FUNCTION :"schema".audit_lease();
        CREATE TRIGGER users_audit AFTER INSERT ON :"schema".users
        FOR EACH ROW
        WHEN (NEW.opt_outs IS NOT NULL)
        EXECUTE FUNCTION :"schema".audit_user();
        CREATE TRIGGER users_audit_changed AFTER UPDATE ON :"schema".users
        FOR EACH ROW
        WHEN (NEW.opt_outs IS DISTINCT FROM OLD.opt_outs)
        EXECUTE FUNCTION :"schema".audit_user();
    END IF;
END
$$
