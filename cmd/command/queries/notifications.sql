-- How much of the server's queue of notifications is in use, from 0 to 1. The server first removes what all sessions have read.
SELECT pg_notification_queue_usage()
