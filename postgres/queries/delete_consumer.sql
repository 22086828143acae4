-- Delete a consumer. Waits until a read under this name has ended.
--   @name text
DELETE FROM :"schema".outbox_consumers
WHERE name = @name
