-- Lock a consumer, and read its position.
--   @name text
-- Waits for another transaction that reads under this name.
SELECT c.seen::text, c.low, c.reading::text, c.next_low, c.last
FROM :"schema".outbox_consumers c
WHERE c.name = @name
FOR UPDATE
