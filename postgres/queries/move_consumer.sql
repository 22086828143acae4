-- Move a consumer that the transaction has locked.
--   @name text · @seen text · @low bigint · @reading text · @next_low bigint · @last bigint
UPDATE :"schema".outbox_consumers
SET seen = @seen::text::pg_snapshot, low = @low, reading = @reading::text::pg_snapshot, next_low = @next_low, last = @last,
    moved_at = clock_timestamp()
WHERE name = @name
