-- Stop writing the outbox. Existing rows stay.
DO $$
BEGIN
    DROP TRIGGER IF EXISTS users_outbox ON :"schema".users;
    DROP TRIGGER IF EXISTS users_outbox_changed ON :"schema".users;
    DROP TRIGGER IF EXISTS series_outbox ON :"schema".series;
    DROP TRIGGER IF EXISTS series_outbox_changed ON :"schema".series;
    DROP TRIGGER IF EXISTS history_outbox ON :"schema".history;
END
$$
