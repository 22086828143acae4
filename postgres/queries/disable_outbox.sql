-- Write the outbox no longer. What it holds stays.
DO $$
BEGIN
    DROP TRIGGER IF EXISTS users_outbox ON :"schema".users;
    DROP TRIGGER IF EXISTS users_outbox_changed ON :"schema".users;
    DROP TRIGGER IF EXISTS series_outbox ON :"schema".series;
    DROP TRIGGER IF EXISTS series_outbox_changed ON :"schema".series;
    DROP TRIGGER IF EXISTS history_outbox ON :"schema".history;
END
$$
