-- Send a notification. It is delivered when the transaction commits, once even if the same notification is sent several times
-- (NOTIFY in the manual).
--   @channel text · @payload text
-- Sends nothing while the queue of notifications is half full, or the COMMIT of this transaction could fail: every role that may connect to
-- the server can fill the queue. Returns no row then. Asking for the usage makes the server remove what all sessions have read.
-- Takes a lock at the commit: of all notifying transactions of the server, only one commits at a time.
SELECT pg_notify(@channel::text, @payload::text)
WHERE pg_notification_queue_usage() < 0.5::float8
