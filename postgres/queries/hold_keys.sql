-- Count requeued events as holders of the keys of the events that they repeat.
--   @keys text[]
-- Returns nothing. Locks the keys.
INSERT INTO :"schema".keys AS k (idempotency_key, holders)
SELECT n.key, count(*)
FROM pg_catalog.unnest(@keys::text[]) AS n (key)
GROUP BY n.key
ON CONFLICT (idempotency_key) DO UPDATE
SET holders = k.holders + excluded.holders
