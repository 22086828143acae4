-- Store a consumer that has read everything up to now. An existing consumer is left unchanged.
--   @name text · @snapshot text · @low bigint
INSERT INTO :"schema".outbox_consumers (name, seen, low, reading, next_low, last)
VALUES (@name, @snapshot::text::pg_snapshot, @low, @snapshot::text::pg_snapshot, @low, 0)
ON CONFLICT (name) DO NOTHING
