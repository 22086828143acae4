-- Store a consumer that has read everything up to now. One that is there is left as it is.
--   @name text · @snapshot text · @low bigint
INSERT INTO :"schema".outbox_consumers (name, seen, low, reading, next_low, last)
VALUES (@name, @snapshot::text::pg_snapshot, @low, @snapshot::text::pg_snapshot, @low, 0)
ON CONFLICT (name) DO NOTHING
