-- What server it is.
-- Returns its version as a number and in words, whether it is a standby, whether autovacuum is on, how many standbys and base backups
-- read from it, and whether a commit waits until a standby has it.
SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(), current_setting('autovacuum')::bool,
    (SELECT count(*) FROM pg_catalog.pg_stat_replication),
    current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') NOT IN ('off', 'local')
