-- Forget a consumer. Waits for the consumer, where it is reading.
--   @name text
DELETE FROM :"schema".outbox_consumers
WHERE name = @name
