-- What server it is.
-- Returns one row. The columns, in this order:
--   Its version as a number, and in words.
--   Whether it is a standby.
--   Whether autovacuum is on.
--   How many standbys and base backups read from it.
--   Whether a commit waits until a standby has it.
SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(), current_setting('autovacuum')::bool,
    (SELECT count(*) FROM pg_catalog.pg_stat_replication),
    current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') NOT IN ('off', 'local')
