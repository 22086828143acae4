-- Stop writing the trail. Existing rows stay.
DO $$
BEGIN
    DROP TRIGGER IF EXISTS series_audit ON :"schema".series;
    DROP TRIGGER IF EXISTS history_audit ON :"schema".history;
    DROP TRIGGER IF EXISTS leases_audit ON :"schema".leases;
    DROP TRIGGER IF EXISTS users_audit ON :"schema".users;
    DROP TRIGGER IF EXISTS users_audit_changed ON :"schema".users;
END
$$
