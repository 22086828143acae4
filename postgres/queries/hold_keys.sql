-- Note that requeued events have the keys of the events that they repeat.
--   @keys text[]
-- Returns nothing. Locks the keys.
INSERT INTO :"schema".keys AS k (idempotency_key)
SELECT DISTINCT n.key
FROM unnest(@keys::text[]) AS n (key)
ON CONFLICT (idempotency_key) DO UPDATE
SET holders = k.holders + 1
