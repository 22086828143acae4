-- What server it is.
-- Returns its version as a number and in words, whether it is a standby, and whether autovacuum is on.
SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(), current_setting('autovacuum')::bool
