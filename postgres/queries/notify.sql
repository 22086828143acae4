-- Send a notification. It goes when the transaction commits, once where the same is sent several times (NOTIFY in the manual).
--   @channel text · @payload text
-- Takes a lock at the commit that lets one transaction of the whole server that notifies commit at a time.
SELECT pg_notify(@channel::text, @payload::text)
