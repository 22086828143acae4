-- Send a notification. It is delivered when the transaction commits, once even if the same notification is sent several times
-- (NOTIFY in the manual).
--   @channel text · @payload text
-- Takes a lock at the commit: of all notifying transactions of the server, only one commits at a time.
SELECT pg_notify(@channel::text, @payload::text)
